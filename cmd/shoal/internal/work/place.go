// Package work is the commands enqueue and work: jobs by hand.
package work

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	shoalnats "github.com/shoal-go/shoal/contrib/nats"
	"github.com/shoal-go/shoal/contrib/nats/embedded"
	"github.com/shoal-go/shoal/jobs"
)

// A Place says where a queue is. One of Dir, NATS and SQL is used: SQL if it is given,
// else NATS, else Dir.
type Place struct {
	Dir   string // of the embedded engine
	Fast  bool   // which does not wait for the disk
	NATS  string // the address of a server
	SQL   string // postgres://… or the file of an SQLite database
	Queue string
	Lease time.Duration
	Log   *slog.Logger // nil: slog.Default()
}

// A Queue is an open queue.
type Queue struct {
	jobs.Source
	jobs.Sink
	Where string // for people
	close func() error
}

// Close lets go of the queue.
func (q *Queue) Close() error { return q.close() }

// Open opens the queue at p.
func Open(ctx context.Context, p Place) (*Queue, error) {
	switch {
	case p.SQL != "":
		return openSQL(ctx, p)
	case p.NATS != "":
		nc, err := nats.Connect(p.NATS, nats.MaxReconnects(-1), nats.ReconnectWait(reconnect), nats.ReconnectBufSize(-1))
		if err != nil {
			return nil, fmt.Errorf("-nats %s: %w", withoutSecrets(p.NATS), err)
		}
		return openNATS(ctx, p, nc, withoutSecrets(p.NATS), func() error { nc.Close(); return nil })
	}
	n, err := openDir(ctx, p.Dir, p.Fast, cmp.Or(p.Log, slog.Default()))
	if err != nil {
		return nil, fmt.Errorf("-dir %s: %w", p.Dir, err)
	}
	return openNATS(ctx, p, n.nc, p.Dir, n.close)
}

func openNATS(ctx context.Context, p Place, nc *nats.Conn, where string, closing func() error) (*Queue, error) {
	for {
		once, cancel := context.WithTimeout(ctx, patience)
		q, err := shoalnats.Open(once, nc, p.Queue, shoalnats.WithLease(p.Lease))
		cancel()
		if err == nil {
			return &Queue{Source: q, Sink: q, Where: where, close: closing}, nil
		}
		// The process whose server it was may have died this moment.
		if ctx.Err() != nil || nc.IsConnected() && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrNoResponders) {
			return nil, errors.Join(err, closing())
		}
		time.Sleep(reconnect)
	}
}

func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	return u.Redacted()
}

const (
	reconnect = 50 * time.Millisecond
	patience  = 10 * time.Second
	urlFile   = "url"
)

// A node is this process's part in the engine of a folder: a connection to the server,
// which is in one of the processes that use the folder. When that one ends, another one
// starts a server, at the same address.
type node struct {
	dir   string
	fast  bool
	log   *slog.Logger
	nc    *nats.Conn
	ended chan struct{} // closed by close

	mu     sync.Mutex
	server *embedded.Server // if it is here
	closed bool
}

func openDir(ctx context.Context, dir string, fast bool, log *slog.Logger) (*node, error) {
	n := &node{dir: dir, fast: fast, log: log, ended: make(chan struct{})}
	go n.mind()
	end := time.Now().Add(patience)
	for {
		err := n.start()
		if err != nil && !errors.Is(err, embedded.ErrInUse) {
			return nil, errors.Join(err, n.close())
		}
		address, e := n.address()
		if e == nil && address != "" {
			n.nc, e = nats.Connect(address, nats.MaxReconnects(-1), nats.ReconnectWait(reconnect), nats.ReconnectJitter(0, 0),
				nats.ReconnectBufSize(-1), nats.Timeout(time.Second), nats.DisconnectErrHandler(func(nc *nats.Conn, _ error) { go n.takeOver(nc) }))
		}
		if n.nc != nil {
			return n, nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return nil, errors.Join(err, e, n.close())
		}
		time.Sleep(reconnect)
	}
}

// address is where the server of the folder is, or will be; "" if there was none.
func (n *node) address() (string, error) {
	b, err := os.ReadFile(filepath.Join(n.dir, urlFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}

// start starts a server, unless somebody has one for the folder.
func (n *node) start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server != nil || n.closed {
		return nil
	}
	known, err := n.address()
	if err != nil {
		return err
	}
	listen, token := "127.0.0.1:0", rand.Text()
	if u, err := url.Parse(known); err == nil && u.Host != "" && u.User != nil {
		listen, token = u.Host, u.User.Username()
	}
	opts := []embedded.Option{embedded.WithListen(listen), embedded.WithToken(token)}
	if n.fast {
		opts = append(opts, embedded.WithLostWritesOnPowerFailure())
	}
	s, err := embedded.Start(n.dir, opts...)
	if err != nil {
		return err
	}
	n.server = s
	u, err := url.Parse(s.URL())
	if err != nil {
		return err
	}
	u.User = url.User(token)
	return replace(filepath.Join(n.dir, urlFile), u.String()+"\n")
}

// replace writes a file that only its owner may read, and that others see whole.
func replace(name, text string) error {
	f, err := os.CreateTemp(filepath.Dir(name), "new-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// takeOver starts a server when the one that was there has gone, until one runs.
func (n *node) takeOver(nc *nats.Conn) {
	said := ""
	for !nc.IsConnected() && !nc.IsClosed() {
		err := n.start() // or somebody else
		if err != nil && !errors.Is(err, embedded.ErrInUse) && err.Error() != said {
			said = err.Error()
			n.log.Error("starting the queue's engine failed; trying again", "err", err)
		}
		time.Sleep(2 * reconnect)
	}
}

// mind looks after the server, if it is here. One that stores nothing any more, since its
// disk was full, is started anew (takeOver does it, as when another process's has gone),
// again and again, ever more seldom, until that helps.
func (n *node) mind() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	const least, most = 2, 64
	bad, patience := 0, least // ticks in a row that it was bad; and after how many it is closed
	var closed time.Time
	for {
		select {
		case <-n.ended:
			return
		case <-tick.C:
		}
		n.mu.Lock()
		s := n.server
		if s == nil || n.closed {
			n.mu.Unlock()
			continue
		}
		err := s.Err()
		if err == nil {
			bad = 0
			if time.Since(closed) > most*time.Second {
				patience = least
			}
		} else if bad++; bad >= patience {
			n.log.Error("the queue's engine stores nothing any more; restarting it", "err", err)
			n.server = nil
			if err := s.Close(); err != nil {
				n.log.Error("closing the queue's engine failed", "err", err)
			}
			bad, patience, closed = 0, min(2*patience, most), time.Now()
		}
		n.mu.Unlock()
	}
}

func (n *node) close() error {
	if n.nc != nil {
		n.nc.Close()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.closed = true
		close(n.ended)
	}
	if n.server == nil {
		return nil
	}
	return n.server.Close()
}
