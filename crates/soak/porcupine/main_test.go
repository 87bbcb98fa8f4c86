package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func judge(t *testing.T, lines ...string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "operations")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(path)
}

const first = `{"name":1,"hold":0,"exclusive":true,"token":5,"asked":0,"held":10,"given_back":20,"is_over":true}`

func TestWhatALockAllows(t *testing.T) {
	for what, second := range map[string]string{
		"after it":      `{"name":1,"hold":1,"exclusive":true,"token":6,"asked":5,"held":30,"given_back":40,"is_over":true}`,
		"another name":  `{"name":2,"hold":1,"exclusive":true,"token":1,"asked":5,"held":12,"given_back":40,"is_over":true}`,
		"a reader then": `{"name":1,"hold":1,"exclusive":false,"token":5,"asked":5,"held":30,"given_back":40,"is_over":true}`,
	} {
		if err := judge(t, first, second); err != nil {
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
		if judge(t, first, second) == nil {
			t.Errorf("%s: not noticed", what)
		}
	}
}
