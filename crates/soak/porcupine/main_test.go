package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func judge(t *testing.T, what string, lines ...string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "operations")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(what, path)
}

const first = `{"name":1,"hold":0,"exclusive":true,"token":5,"asked":0,"held":10,"given_back":20,"is_over":true}`

func TestWhatALockAllows(t *testing.T) {
	for what, second := range map[string]string{
		"after it":      `{"name":1,"hold":1,"exclusive":true,"token":6,"asked":5,"held":30,"given_back":40,"is_over":true}`,
		"another name":  `{"name":2,"hold":1,"exclusive":true,"token":1,"asked":5,"held":12,"given_back":40,"is_over":true}`,
		"a reader then": `{"name":1,"hold":1,"exclusive":false,"token":5,"asked":5,"held":30,"given_back":40,"is_over":true}`,
	} {
		if err := judge(t, "locks", first, second); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhatItDoesNot(t *testing.T) {
	for what, second := range map[string]string{
		"two writers":         `{"name":1,"hold":1,"exclusive":true,"token":6,"asked":5,"held":12,"given_back":40,"is_over":true}`,
		"a reader meanwhile":  `{"name":1,"hold":1,"exclusive":false,"token":6,"asked":5,"held":12,"given_back":15,"is_over":true}`,
		"a token that is old": `{"name":1,"hold":1,"exclusive":true,"token":5,"asked":21,"held":30,"given_back":40,"is_over":true}`,
		"a reader's, too":     `{"name":1,"hold":1,"exclusive":false,"token":4,"asked":21,"held":30,"given_back":40,"is_over":true}`,
	} {
		if judge(t, "locks", first, second) == nil {
			t.Errorf("%s: not noticed", what)
		}
	}
}

const (
	put7    = `{"who":0,"key":1,"does":{"write":{"value":7,"only":"always"}},"asked":0,"answered":10,"outcome":"done"}`
	swapped = `{"who":0,"key":1,"does":{"write":{"value":8,"only":{"if_value":7}}},"asked":20,"answered":30,"outcome":"done"}`
)

func TestWhatAKeyAllows(t *testing.T) {
	for what, more := range map[string]string{
		"reading it":          `{"who":1,"key":1,"does":"read","asked":11,"answered":12,"outcome":{"found":{"value":7}}}`,
		"reading it before":   `{"who":1,"key":1,"does":"read","asked":5,"answered":12,"outcome":{"found":{"value":null}}}`,
		"reading the other":   `{"who":1,"key":1,"does":"read","asked":21,"answered":25,"outcome":{"found":{"value":8}}}`,
		"another key":         `{"who":1,"key":2,"does":"read","asked":11,"answered":12,"outcome":{"found":{"value":null}}}`,
		"a condition unmet":   `{"who":1,"key":1,"does":{"write":{"value":9,"only":"if_absent"}},"asked":11,"answered":12,"outcome":{"found":{"value":7}}}`,
		"unmet, of something": `{"who":1,"key":1,"does":{"write":{"value":9,"only":{"if_value":6}}},"asked":11,"answered":12,"outcome":"unmet"}`,
		"nobody knows":        `{"who":1,"key":1,"does":{"write":{"value":9,"only":"always"}},"asked":11,"answered":null,"outcome":"unknown"}`,
		"a late deletion":     `{"who":1,"key":1,"does":{"write":{"value":null,"only":"always"}},"asked":31,"answered":32,"outcome":"done"}`,
	} {
		if err := judge(t, "keys", put7, swapped, more); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhatAKeyDoesNot(t *testing.T) {
	for what, more := range map[string]string{
		"a write lost":         `{"who":1,"key":1,"does":"read","asked":11,"answered":12,"outcome":{"found":{"value":null}}}`,
		"an old value":         `{"who":1,"key":1,"does":"read","asked":31,"answered":32,"outcome":{"found":{"value":7}}}`,
		"a value of nobody":    `{"who":1,"key":1,"does":"read","asked":31,"answered":32,"outcome":{"found":{"value":9}}}`,
		"two that swap":        `{"who":1,"key":1,"does":{"write":{"value":9,"only":{"if_value":7}}},"asked":11,"answered":32,"outcome":"done"}`,
		"unmet though it held": `{"who":1,"key":1,"does":{"write":{"value":9,"only":{"if_value":7}}},"asked":11,"answered":12,"outcome":"unmet"}`,
		"made though it was":   `{"who":1,"key":1,"does":{"write":{"value":9,"only":"if_absent"}},"asked":11,"answered":12,"outcome":"done"}`,
	} {
		if judge(t, "keys", put7, swapped, more) == nil {
			t.Errorf("%s: not noticed", what)
		}
	}
}
