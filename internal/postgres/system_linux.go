package postgres

import (
	"os"
	"os/user"
	"strconv"
	"sync"
	"syscall"
)

// server is the user that the server runs as, because root may not run it.
var server = sync.OnceValues(func() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
})

// own makes dir the server's.
func own(dir string) error {
	as, err := server()
	if err != nil || as == nil {
		return err
	}
	return os.Chown(dir, int(as.Uid), int(as.Gid))
}

func attributes() *syscall.SysProcAttr {
	as, _ := server()
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGQUIT}
}
