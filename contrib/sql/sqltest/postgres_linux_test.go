package sqltest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	shoalsql "github.com/shoal-go/shoal/contrib/sql"
)

// A cluster is a private Postgres, which listens on a socket in its folder only.
type cluster struct {
	dir string
	bin string
	as  *syscall.Credential // root may not run it
	log bytes.Buffer

	stopped chan error // has the server's end
	kill    func(os.Signal) error
}

var errNoPostgres = errors.New("there is no Postgres: scripts/postgres installs it")

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
			return "", errNoPostgres
		}
		found = filepath.Dir(p)
	}
	return found, nil
}

func newCluster() (c *cluster, err error) {
	c = &cluster{}
	if c.bin, err = binaries(); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "shoal-pg-"); err != nil { // a socket's path is short
		return nil, err
	}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return c, err
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		c.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(c.dir, int(uid), int(gid)); err != nil {
			return c, err
		}
	}
	out, err := c.command("initdb", "-D", c.dir+"/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		return c, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	hba := "local all stranger scram-sha-256\nlocal all all trust\n"
	if err := os.WriteFile(c.dir+"/data/pg_hba.conf", []byte(hba), 0o600); err != nil {
		return c, err
	}
	return c, c.start()
}

func (c *cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Pdeathsig: syscall.SIGQUIT}
	return cmd
}

func (c *cluster) start() error {
	cmd := c.command("postgres", "-D", c.dir+"/data", "-k", c.dir, "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "shared_buffers=32MB")
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
	c.kill = cmd.Process.Signal
	db, err := sql.Open("pgx", c.dsn("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := db.Ping()
		if err == nil {
			return nil
		}
		select {
		case e := <-c.stopped:
			return fmt.Errorf("postgres: %v\n%s", e, &c.log)
		default:
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// stop ends the server: by SIGINT in order, by SIGQUIT as if it had crashed.
func (c *cluster) stop(sig os.Signal) {
	_ = c.kill(sig)
	<-c.stopped
}

func (c *cluster) dsn(role, database string) string {
	return fmt.Sprintf("host=%s user=%s dbname=%s", c.dir, role, database)
}

func (c *cluster) close() {
	if c.kill != nil {
		c.stop(syscall.SIGINT)
	}
	os.RemoveAll(c.dir)
}

// server is the cluster of all tests that do not stop it.
var server = sync.OnceValues(func() (*cluster, error) {
	c, err := newCluster()
	if c != nil {
		closers = append(closers, c.close)
	}
	return c, err
})

// need skips the test when there is no Postgres, or fails it where that is required.
func need(t testing.TB, c *cluster, err error) *cluster {
	t.Helper()
	switch {
	case errors.Is(err, errNoPostgres) && os.Getenv("SHOAL_POSTGRES") != "required":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return c
}

var databases sync.Mutex // one is the template of others, which are made one at a time
var made int

// postgres is a new database.
func postgres(t testing.TB) place {
	t.Helper()
	c, err := server()
	need(t, c, err)
	databases.Lock()
	defer databases.Unlock()
	made++
	name := fmt.Sprint("t", made)
	db := connect(t, "pgx", c.dsn("postgres", "postgres"))
	if _, err := db.ExecContext(context.Background(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return postgresAt(c, name)
}

func postgresAt(c *cluster, database string) place {
	return place{
		d:    shoalsql.Postgres,
		dsn:  func(role string) string { return c.dsn(role, database) },
		open: func(t testing.TB) *sql.DB { return connect(t, "pgx", c.dsn("postgres", database)) },
	}
}

// ownPostgres is a database on a server of its own, with what has it crash and begin again.
func ownPostgres(t testing.TB) (p place, restart func()) {
	t.Helper()
	c, err := newCluster()
	if c != nil {
		t.Cleanup(c.close)
	}
	need(t, c, err)
	return postgresAt(c, "postgres"), func() {
		c.stop(syscall.SIGQUIT)
		time.Sleep(300 * time.Millisecond)
		if err := c.start(); err != nil {
			t.Error(err)
		}
	}
}

func TestPostgresIsThereIfRequired(t *testing.T) {
	if s := strings.TrimSpace(os.Getenv("SHOAL_POSTGRES")); s != "" && s != "required" {
		t.Errorf("SHOAL_POSTGRES=%q: want required, or nothing", s)
	}
	c, err := server()
	need(t, c, err)
}
