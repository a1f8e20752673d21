// kfake as a broker process: one broker of franz-go's fake cluster, its data on disk, behind a proxy.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

// behind is a listener that tells others of the proxy in front of it.
type behind struct {
	net.Listener
	proxy net.Addr
}

func (b behind) Addr() net.Addr { return b.proxy }

func main() {
	listen := flag.String("listen", "127.0.0.1:9092", "host:port to bind")
	advertise := flag.String("advertise", "", "host:port to tell clients of (default: what it binds)")
	data := flag.String("data", "", "folder to keep everything in (default: memory)")
	flag.Parse()

	proxy, err := net.ResolveTCPAddr("tcp", *listen)
	if *advertise != "" {
		proxy, err = net.ResolveTCPAddr("tcp", *advertise)
	}
	if err != nil {
		fail(err)
	}
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(proxy.Port),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) {
			own, err := net.Listen(network, *listen)
			return behind{own, proxy}, err
		}),
	}
	if *data != "" {
		options = append(options, kfake.DataDir(*data))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		fail(err)
	}
	fmt.Println("kfake is serving at", *listen)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
	cluster.Close()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kfake:", err)
	os.Exit(1)
}
