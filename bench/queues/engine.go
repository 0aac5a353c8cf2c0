package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/shoal-go/shoal/internal/postgres"
)

// An engine keeps the jobs. Each measurement has one of its own, in a new folder.
type engine struct {
	place string // how the processes of the subject find it
	pids  func() []int
	close func() error
}

var engines = map[string]func(dir string) (*engine, error){
	"folder": func(dir string) (*engine, error) {
		return &engine{place: filepath.Join(dir, "queue"), pids: func() []int { return nil }, close: func() error { return nil }}, nil
	},
	"postgres": func(string) (*engine, error) {
		c, err := postgres.New()
		if err != nil {
			return nil, err
		}
		return &engine{place: c.DSN("postgres", "postgres"), pids: func() []int { return tree(c.Pid()) }, close: c.Close}, nil
	},
	"nats-always":    func(dir string) (*engine, error) { return startNATS(dir, "nats-always") },
	"nats":           func(dir string) (*engine, error) { return startNATS(dir, "nats") },
	"redis-always":   func(dir string) (*engine, error) { return startRedis(dir, "always") },
	"redis-everysec": func(dir string) (*engine, error) { return startRedis(dir, "everysec") },
}

// startNATS starts a NATS server, in a process that natsServer is.
func startNATS(dir, name string) (*engine, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, "-child", "nats", "-place", dir, "-subject", name)
	c.SysProcAttr, c.Stderr = attributes(), os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	e := &engine{pids: func() []int { return []int{c.Process.Pid} }, close: func() error {
		_ = c.Process.Kill()
		_ = c.Wait()
		return nil
	}}
	if e.place, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(errors.New("the NATS server does not start"), e.close())
	}
	e.place = strings.TrimSpace(e.place)
	return e, nil
}

// natsServer runs a NATS server, with or without a sync of each write, until it is killed,
// and says where it is.
func natsServer(dir string, sync bool) error {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, SyncAlways: sync, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return errors.New("the NATS server is not ready")
	}
	fmt.Println(s.ClientURL())
	s.WaitForShutdown()
	return nil
}

func startRedis(dir, fsync string) (*engine, error) {
	socket := filepath.Join(dir, "redis")
	c := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", fsync)
	c.SysProcAttr = attributes()
	if err := c.Start(); err != nil {
		return nil, err
	}
	e := &engine{place: socket, pids: func() []int { return []int{c.Process.Pid} }, close: func() error {
		_ = c.Process.Kill()
		_ = c.Wait()
		return nil
	}}
	for range 100 {
		if nc, err := net.Dial("unix", socket); err == nil {
			return e, nc.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, errors.Join(errors.New("redis-server does not listen"), e.close())
}

// tree is a process and its children.
func tree(pid int) []int {
	all := []int{pid}
	dirs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, d := range dirs {
		b, err := os.ReadFile(d)
		if err != nil {
			continue
		}
		_, rest, ok := strings.Cut(string(b), ") ")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 2 {
			continue
		}
		if ppid, _ := strconv.Atoi(fields[1]); ppid == pid {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(d))); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// memory is what the processes take, in bytes; what they share is counted once.
func memory(pids []int) (sum int64, err error) {
	for _, pid := range pids {
		f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, err
		}
		for sc := bufio.NewScanner(f); sc.Scan(); {
			if kb, ok := strings.CutPrefix(sc.Text(), "Pss:"); ok {
				n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 64)
				sum += n << 10
			}
		}
		f.Close()
	}
	return sum, nil
}
