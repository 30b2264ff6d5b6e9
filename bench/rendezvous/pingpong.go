// N ROUNDS: a goroutine sends so many numbers to N - 1 others, on an unbuffered channel for each of them.
//
// With N = 2 that is a rendezvous of two. Go has no rendezvous of more; what is measured then is the
// nearest that its channels give, where readers do not wait for each other. Prints `timed WALL CPU
// ANSWER`: nanoseconds for each round, and the sum of what was received. GOMAXPROCS says how many cores.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

func receive(in chan int, rounds int, sum chan int) {
	found := 0
	for i := 0; i < rounds; i++ {
		found += <-in
	}
	sum <- found
}

func cpu() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail(err.Error())
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func fail(reason string) {
	fmt.Fprintln(os.Stderr, "pingpong: "+reason)
	os.Exit(1)
}

func argument(i, least int) int {
	if len(os.Args) == 3 {
		if n, err := strconv.Atoi(os.Args[i]); err == nil && n >= least {
			return n
		}
	}
	fail("usage: pingpong N ROUNDS")
	return 0
}

func main() {
	n, rounds := argument(1, 2), argument(2, 1)
	warm := 1 + rounds/10
	channels := make([]chan int, n-1)
	sums := make(chan int, n-1)
	for i := range channels {
		channels[i] = make(chan int)
		go receive(channels[i], warm+rounds, sums)
	}
	send := func(from int) {
		if len(channels) == 1 {
			only := channels[0]
			for k := from; k > 0; k-- {
				only <- k
			}
			return
		}
		for k := from; k > 0; k-- {
			for _, channel := range channels {
				channel <- k
			}
		}
	}
	send(warm)
	cpu0, wall0 := cpu(), time.Now()
	send(rounds)
	wall, spent := time.Since(wall0), cpu()-cpu0
	answer := 0
	for range channels {
		answer += <-sums
	}
	if answer != (n-1)*(warm*(warm+1)/2+rounds*(rounds+1)/2) {
		fail(fmt.Sprint("wrong: ", answer))
	}
	per := float64(rounds)
	fmt.Printf("timed %.1f %.1f %d\n", float64(wall.Nanoseconds())/per, float64(spent)/per, answer)
}
