// A Go program whose stacks are known: a till rings, which opens, which calls getppid.
package main

import (
	"os"
	"strconv"
	"syscall"
)

type opens interface{ open(number int) int }

type till struct{ more int }

//go:noinline
func leaf(number int) int { return syscall.Getppid() + number }

//go:noinline
func (t till) open(number int) int { return leaf(number) + t.more }

//go:noinline
func ring(it opens, many int) int {
	sum := 0
	for number := 0; number < many; number++ {
		sum += it.open(number)
	}
	return sum
}

func main() {
	many := 1
	if len(os.Args) > 2 {
		many, _ = strconv.Atoi(os.Args[2])
	}
	os.Exit(ring(till{1}, many) & 0)
}
