// Package embedded runs a NATS server with JetStream in the process: a durable queue for
// one machine without any set-up, and the first step towards a cluster.
//
// It is a module of its own, so that programs that use a server elsewhere do not link it.
package embedded

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/shoal-go/shoal/jobs"
)

// An Option changes what [Start] starts.
type Option func(*config)

type config struct {
	listen     string
	token      string
	noSync     bool
	maxPayload int
	maxStore   int64
	wait       time.Duration
	log        server.Logger
	cluster    *Cluster
}

// A Cluster is one of some servers that store jobs together.
type Cluster struct {
	Name   string   // of this server; no other of the cluster has it
	Listen string   // host:port, for the other servers
	Routes []string // nats://host:port of the others' Listen
}

// WithListen has the server listen for other processes, at host:port; port 0 is any. The
// default is none: only this process can connect. Without [WithToken]
// everybody can connect there, so the host should be one of the loopback.
func WithListen(addr string) Option { return func(c *config) { c.listen = addr } }

// WithToken has other processes connect with this token only; see [nats.Token].
func WithToken(token string) Option { return func(c *config) { c.token = token } }

// WithCluster makes the server one of a cluster.
func WithCluster(cl Cluster) Option { return func(c *config) { c.cluster = &cl } }

// WithMaxPayload sets how large a payload may be, in bytes. The default is 1 MiB, the
// most 64 MiB.
func WithMaxPayload(n int) Option { return func(c *config) { c.maxPayload = n } }

// WithMaxStore sets how many bytes the data folder may take. The default is what the
// server thinks fit: three quarters of what is free.
func WithMaxStore(n int64) Option { return func(c *config) { c.maxStore = n } }

// WithLostWritesOnPowerFailure does not wait for the disk before a job is confirmed: it
// is faster, and when the machine fails what was confirmed in the last two minutes may be
// lost. (When only the process dies nothing is.) That is how a NATS server works where
// it is not told otherwise.
func WithLostWritesOnPowerFailure() Option { return func(c *config) { c.noSync = true } }

// WithLogger sets where the server logs. The default is nowhere.
func WithLogger(l server.Logger) Option { return func(c *config) { c.log = l } }

// A Server is a NATS server in this process.
type Server struct {
	s      *server.Server
	dir    string
	token  string
	unlock func() error
}

// ErrInUse is matched by the error of [Start] when another server has the folder.
var ErrInUse = errors.New("another server has it")

// Start starts a server that keeps its data in dir, which it makes, and which one server
// at a time may have: what was there before, it has. It is ready when Start returns. It
// takes no signals.
//
// Every write is on the disk before it is confirmed, unless
// [WithLostWritesOnPowerFailure] is given.
func Start(dir string, opts ...Option) (*Server, error) {
	c := config{maxPayload: 1 << 20, wait: 10 * time.Second}
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("%w: option %d is nil", jobs.ErrConfig, i)
		}
		o(&c)
	}
	o := &server.Options{
		ServerName: "shoal-" + strconv.Itoa(os.Getpid()), StoreDir: dir, JetStream: true, JetStreamMaxStore: -1, JetStreamMaxMemory: -1,
		SyncAlways: !c.noSync, NoSigs: true, NoLog: c.log == nil, DontListen: c.listen == "",
		MaxPayload: int32(c.maxPayload), MaxPending: 64 << 20, Authorization: c.token,
	}
	switch {
	case dir == "":
		return nil, fmt.Errorf("%w: Start(%q): want a folder", jobs.ErrConfig, dir)
	case c.maxPayload < 1 || c.maxPayload > 64<<20:
		return nil, fmt.Errorf("%w: WithMaxPayload(%d): want 1 to %d", jobs.ErrConfig, c.maxPayload, 64<<20)
	case c.maxStore < 0:
		return nil, fmt.Errorf("%w: WithMaxStore(%d): want 0 or more", jobs.ErrConfig, c.maxStore)
	}
	if c.maxStore > 0 {
		o.JetStreamMaxStore = c.maxStore
	}
	var err error
	if c.listen != "" {
		if o.Host, o.Port, err = hostPort(c.listen); err != nil {
			return nil, fmt.Errorf("%w: WithListen(%q): %w", jobs.ErrConfig, c.listen, err)
		}
	}
	if cl := c.cluster; cl != nil {
		if cl.Name == "" {
			return nil, fmt.Errorf("%w: WithCluster: want a name for the server", jobs.ErrConfig)
		}
		o.ServerName, o.Cluster.Name = cl.Name, "shoal"
		if o.Cluster.Host, o.Cluster.Port, err = hostPort(cl.Listen); err != nil {
			return nil, fmt.Errorf("%w: WithCluster: Listen %q: %w", jobs.ErrConfig, cl.Listen, err)
		}
		for _, r := range cl.Routes {
			o.RoutesStr += "," + r
		}
		if o.RoutesStr != "" {
			o.RoutesStr = o.RoutesStr[1:]
			o.Routes = server.RoutesFromStr(o.RoutesStr)
		}
	}
	if err := os.MkdirAll(filepath.Clean(dir), 0o750); err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, fmt.Errorf("embedded: the folder %s: %w", dir, err)
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("embedded: %w", err), unlock())
	}
	if c.log != nil {
		s.SetLoggerV2(c.log, false, false, false)
	}
	s.Start()
	if !s.ReadyForConnections(c.wait) {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, errors.Join(fmt.Errorf("embedded: the server is not ready after %v: %s", c.wait, where(c)), unlock())
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, errors.Join(fmt.Errorf("embedded: JetStream cannot use the folder %s", dir), unlock())
	}
	return &Server{s: s, dir: dir, token: c.token, unlock: unlock}, nil
}

func where(c config) string {
	if c.listen == "" {
		return "it listens nowhere"
	}
	return "is " + c.listen + " in use?"
}

func hostPort(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(p); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("port %q: want 0 to 65535", p)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// Connect connects to the server, within the process.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append([]nats.Option{nats.InProcessServer(s.s), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.Token(s.token)}, opts...)...)
}

// URL is where other processes connect to; "" if it does not listen.
func (s *Server) URL() string {
	if s.s.Addr() == nil {
		return ""
	}
	return s.s.ClientURL()
}

// Err says why the server does not store jobs; nil if it does. After a write that has
// failed, as on a full disk, it confirms nothing more until it is closed, there is room,
// and another server is started for the folder. That has all that was confirmed.
func (s *Server) Err() error {
	switch {
	case !s.s.Running():
		return errors.New("embedded: the server is closed")
	case !s.s.JetStreamEnabled():
		return fmt.Errorf("embedded: the folder %s: JetStream has given it up", s.dir)
	}
	// What else it may say passes, as of a stream that is only just made, or is no matter of
	// starting anew.
	if h := s.s.Healthz(&server.HealthzOptions{}); strings.Contains(h.Error, "write error") {
		return fmt.Errorf("embedded: the folder %s: %s", s.dir, h.Error)
	}
	return nil
}

// Dir is the data folder.
func (s *Server) Dir() string { return s.dir }

// Close stops the server, and returns when it has. What is in the folder stays. It may be
// called more than once.
func (s *Server) Close() error {
	s.s.Shutdown()
	s.s.WaitForShutdown()
	return s.unlock()
}
