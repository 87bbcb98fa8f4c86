// Judges histories by linearizability: reads what `wayside-soak` exports, a line of JSON an operation, and asks Porcupine
// whether, name by name, there is an order of them that a lock or a key allows and that the times allow.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// What is judged: how a line is read, and what is allowed.
type service struct {
	read  func(line []byte, operations map[uint64][]porcupine.Operation) error
	model porcupine.Model
}

var services = map[string]service{
	"locks": {readHold, lockModel},
	"keys":  {readKeyOperation, keyModel},
}

// Longest time for one name.
const patience = 2 * time.Minute

func run(what, path string) error {
	service, known := services[what]
	if !known {
		return fmt.Errorf("%q: neither locks nor keys", what)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	names := map[uint64][]porcupine.Operation{}
	lines := bufio.NewScanner(file)
	count := 0
	for lines.Scan() {
		count++
		if err := service.read(lines.Bytes(), names); err != nil {
			return fmt.Errorf("line %d: %w", count, err)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	for name, operations := range names {
		switch porcupine.CheckOperationsTimeout(service.model, operations, patience) {
		case porcupine.Illegal:
			return fmt.Errorf("name %d: no order of its %d operations is one of %s", name, len(operations), what)
		case porcupine.Unknown:
			return fmt.Errorf("name %d: not judged within %v", name, patience)
		}
	}
	fmt.Printf("%d operations of %d names are linearizable\n", count, len(names))
	return nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: wayside-porcupine locks|keys OPERATIONS")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
