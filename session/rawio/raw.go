//go:build !race

package rawio

import (
	"syscall"
	"unsafe"
)

func read(fd uintptr, p []byte) (int, error) {
	if ordinary(len(p)) {
		return syscall.Read(int(fd), p)
	}
	return done(syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
}

func write(fd uintptr, p []byte) (int, error) {
	if ordinary(len(p)) {
		return syscall.Write(int(fd), p)
	}
	return done(syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
}

func done(n, _ uintptr, errno syscall.Errno) (int, error) {
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}
