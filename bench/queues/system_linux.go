package main

import "syscall"

// attributes make the kernel end a server when the process that started it ends.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
