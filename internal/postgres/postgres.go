// Package postgres starts servers of Postgres for tests and measurements: each has a
// folder of its own, listens on a socket there and nowhere else, and ends with the
// process that has started it. scripts/postgres installs the programs.
package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// ErrNone is matched by the error of [New] where there is no Postgres.
var ErrNone = errors.New("there is no Postgres: scripts/postgres installs it")

// A Cluster is a server and its folder.
type Cluster struct {
	dir     string
	bin     string
	args    []string
	log     bytes.Buffer
	stopped chan error // has the server's end
	process *os.Process
}

// binaries is the folder of the newest Postgres.
func binaries() (string, error) {
	found, newest := "", 0
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	for _, p := range all {
		dir := filepath.Dir(p)
		if v, err := strconv.Atoi(filepath.Base(filepath.Dir(dir))); err == nil && v > newest {
			found, newest = dir, v
		}
	}
	if found == "" {
		p, err := exec.LookPath("initdb")
		if err != nil {
			return "", ErrNone
		}
		found = filepath.Dir(p)
	}
	return found, nil
}

// New makes a cluster and starts its server, with settings such as "fsync=off".
// Connections over the socket are trusted, except those of the role stranger, which needs
// a password.
func New(settings ...string) (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "shoal-pg-") // a socket's path is short
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, bin: bin, args: []string{"-D", dir + "/data", "-k", dir, "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "shared_buffers=32MB"}}
	for _, s := range settings {
		c.args = append(c.args, "-c", s)
	}
	if err := c.begin(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

func (c *Cluster) begin() error {
	if err := own(c.dir); err != nil {
		return err
	}
	out, err := c.command("initdb", "-D", c.dir+"/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	hba := "local all stranger scram-sha-256\nlocal all all trust\n"
	if err := os.WriteFile(c.dir+"/data/pg_hba.conf", []byte(hba), 0o600); err != nil {
		return err
	}
	return c.Start()
}

func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = attributes()
	return cmd
}

// Start starts the server again, after Stop. When it returns the server is ready.
func (c *Cluster) Start() error {
	cmd := c.command("postgres", c.args...)
	c.log.Reset()
	cmd.Stdout, cmd.Stderr = &c.log, &c.log
	c.stopped = make(chan error, 1)
	began := make(chan error)
	go func() {
		runtime.LockOSThread() // the server ends with the thread that has begun it
		err := cmd.Start()
		began <- err
		if err == nil {
			c.stopped <- cmd.Wait()
		}
	}()
	if err := <-began; err != nil {
		return err
	}
	c.process = cmd.Process
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := c.command("pg_isready", "-q", "-h", c.dir).Run()
		if err == nil {
			return nil
		}
		select {
		case e := <-c.stopped:
			c.process = nil
			return fmt.Errorf("postgres: %v\n%s", e, &c.log)
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("postgres: not ready after a minute: %w", err)
		}
	}
}

// Stop ends the server in order, and Crash as if the machine had failed.
func (c *Cluster) Stop()  { c.end(syscall.SIGINT) }
func (c *Cluster) Crash() { c.end(syscall.SIGQUIT) }

func (c *Cluster) end(sig os.Signal) {
	if c.process == nil {
		return
	}
	_ = c.process.Signal(sig)
	<-c.stopped
	c.process = nil
}

// Pid is the server's process.
func (c *Cluster) Pid() int { return c.process.Pid }

// Dir is the folder.
func (c *Cluster) Dir() string { return c.dir }

// DSN is how to connect.
func (c *Cluster) DSN(role, database string) string {
	return fmt.Sprintf("host=%s user=%s dbname=%s", c.dir, role, database)
}

// URL is how to connect, for what wants a URL.
func (c *Cluster) URL(role, database string) string {
	return "postgres://" + role + "@/" + database + "?host=" + url.QueryEscape(c.dir)
}

// Close ends the server and removes its folder.
func (c *Cluster) Close() error {
	c.Stop()
	return os.RemoveAll(c.dir)
}
