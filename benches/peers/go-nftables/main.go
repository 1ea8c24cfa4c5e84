// Builds one message of 1,000 map elements with google/nftables; see ../README.md.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"sort"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
)

const elements, runs = 1000, 101

func main() {
	bytes := 0
	dial := func(request []netlink.Message) ([]netlink.Message, error) {
		for _, message := range request {
			encoded, err := message.MarshalBinary()
			if err != nil {
				return nil, err
			}
			bytes = max(bytes, len(encoded))
		}
		// Answer as the kernel does, so that Flush returns.
		var acks []netlink.Message
		for _, message := range request {
			if message.Header.Flags&netlink.Acknowledge != 0 {
				acks = append(acks, netlink.Message{
					Header: netlink.Header{Type: netlink.Error, Sequence: message.Header.Sequence, PID: message.Header.PID},
					Data:   make([]byte, 20),
				})
			}
		}
		return acks, nil
	}
	conn, err := nftables.New(nftables.WithTestDial(dial))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	table := &nftables.Table{Name: "kube-proxy", Family: nftables.TableFamilyIPv4}
	set := &nftables.Set{Table: table, Name: "endpoints", ID: 1, IsMap: true,
		KeyType: nftables.TypeInteger, DataType: nftables.TypeInteger}
	keys := make([]byte, elements*16)
	for i := range elements {
		binary.BigEndian.PutUint32(keys[i*16:], uint32(i))
	}
	value := []byte{10, 0, 0, 1, 0, 80, 0, 0}

	times := make([]time.Duration, 0, runs)
	var allocations uint64
	var before, after runtime.MemStats
	for range runs {
		runtime.ReadMemStats(&before)
		start := time.Now()
		list := make([]nftables.SetElement, 0, elements)
		for i := range elements {
			list = append(list, nftables.SetElement{Key: keys[i*16 : i*16+16], Val: value})
		}
		if err := conn.SetAddElements(set, list); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_ = conn.Flush()
		times = append(times, time.Since(start))
		runtime.ReadMemStats(&after)
		allocations = after.Mallocs - before.Mallocs
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	fmt.Printf("{\"name\":\"google/nftables v0.3.0 (Go)\",\"ns\":%d,\"allocations\":%d,\"bytes\":%d}\n",
		times[runs/2].Nanoseconds(), allocations, bytes)
}
