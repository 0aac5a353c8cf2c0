package postgres

import (
	"errors"
	"os"
	"os/exec"
	"testing"
)

func TestACluster(t *testing.T) {
	c, err := New()
	if errors.Is(err, ErrNone) && os.Getenv("SHOAL_POSTGRES") != "required" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func() error {
		return exec.Command(c.bin+"/psql", c.URL("postgres", "postgres"), "-c", "SELECT 1").Run()
	}
	if err := ask(); err != nil {
		t.Errorf("at the beginning: %v", err)
	}
	c.Crash()
	if ask() == nil {
		t.Error("it answers when it is stopped")
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil {
		t.Errorf("started again: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.Dir()); err == nil {
		t.Error("the folder is there after Close")
	}
}

func TestASettingThatIsWrong(t *testing.T) {
	c, err := New("no_such=1")
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	if err == nil {
		c.Close()
		t.Fatal("no error")
	}
}
