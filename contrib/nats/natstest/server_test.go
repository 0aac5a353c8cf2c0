package natstest_test

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// A natsServer is a NATS server with JetStream, in the process of the test.
type natsServer struct{ s *server.Server }

type serverOption func(*server.Options)

// withListen has the server listen at host:port; port 0 is any. Without it only this process
// can connect.
func withListen(addr string) serverOption {
	return func(o *server.Options) {
		o.DontListen = false
		o.Host, o.Port = hostPort(addr)
	}
}

func withToken(token string) serverOption {
	return func(o *server.Options) { o.Authorization = token }
}

func withMaxPayload(n int) serverOption { return func(o *server.Options) { o.MaxPayload = int32(n) } }

func withMaxStore(n int64) serverOption { return func(o *server.Options) { o.JetStreamMaxStore = n } }

// withoutSync has the server confirm what is not on the disk yet, as it does by default.
func withoutSync() serverOption { return func(o *server.Options) { o.SyncAlways = false } }

// withCluster makes the server one of a cluster: its name, where it listens for the others,
// and where they do.
func withCluster(name, listen string, routes ...string) serverOption {
	return func(o *server.Options) {
		o.ServerName, o.Cluster.Name = name, "shoal"
		o.Cluster.Host, o.Cluster.Port = hostPort(listen)
		for _, r := range routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: r})
		}
	}
}

func hostPort(addr string) (host string, port int) {
	host, p, _ := net.SplitHostPort(addr)
	if port, _ = strconv.Atoi(p); port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port
}

// startServer starts a server that keeps its data in dir. Unless an option says otherwise,
// each write is on the disk before it is confirmed.
func startServer(dir string, opts ...serverOption) (*natsServer, error) {
	o := &server.Options{
		StoreDir: dir, JetStream: true, JetStreamMaxStore: -1, JetStreamMaxMemory: -1, SyncAlways: true,
		NoSigs: true, NoLog: true, DontListen: true, MaxPayload: 1 << 20, MaxPending: 64 << 20,
	}
	for _, f := range opts {
		f(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	n := &natsServer{s}
	if !s.ReadyForConnections(20*time.Second) || !s.JetStreamEnabled() {
		n.Close()
		return nil, fmt.Errorf("the server in %s does not start", dir)
	}
	return n, nil
}

// connect connects to the server, within the process.
func (n *natsServer) connect() (*nats.Conn, error) {
	return nats.Connect("", nats.InProcessServer(n.s), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1))
}

// URL is where the server listens.
func (n *natsServer) URL() string { return n.s.ClientURL() }

// writeError is what the server says of a write that has failed; "" if none has.
func (n *natsServer) writeError() string {
	if h := n.s.Healthz(&server.HealthzOptions{}); strings.Contains(h.Error, "write error") {
		return h.Error
	}
	return ""
}

func (n *natsServer) Close() {
	n.s.Shutdown()
	n.s.WaitForShutdown()
}

func start(t testing.TB, dir string, opts ...serverOption) *natsServer {
	t.Helper()
	s, err := startServer(dir, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func connect(t testing.TB, s *natsServer) *nats.Conn {
	t.Helper()
	nc, err := s.connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
