package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vionet/vhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// snippet is a piece of Go in a document.
var snippet = regexp.MustCompile("(?s)```go\n(.*?)```")

// pciDevice is the device of the snippets, and the socket what stands for it here.
const (
	pciDevice = `pci.Open(pci.Tree{}, "0000:00:04.0", pci.Options{})`
	socket    = `vhost.Dial(os.Args[1], vhost.FrontendConfig{})`
)

// source is what a reader makes of a snippet: a file with a function of that name,
// whose beginning and end are his.
func source(name string, imports []string, begin, snippet, end string) string {
	var b strings.Builder
	b.WriteString("package main\n\nimport (\n")
	for _, path := range append(imports, "context", "os", "vionet/driver", "vionet/vhost") {
		fmt.Fprintf(&b, "\t%q\n", path)
	}
	fmt.Fprintf(&b, ")\n\nfunc %s(ctx context.Context) error {\n%s\n%s\n%s\n}\n", name, begin, snippet, end)
	return b.String()
}

// program runs the one of the functions that its second argument names.
const program = `package main

import (
	"context"
	"log"
	"os"
)

func handle([]byte) {}

func main() {
	run := map[string]func(context.Context) error{"bursts": bursts, "conn": conn}[os.Args[2]]
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
`

// The README's snippets work for somebody who has nothing but the module: one is
// made elsewhere that requires this one, the snippets are put into a program there,
// and what is sent to it comes back.
func TestSnippetsOutsideTheTree(t *testing.T) {
	found := snippet.FindAllStringSubmatch(read(t, "../README.md"), -1)
	if len(found) != 2 {
		t.Fatalf("the README has %d snippets of Go, want 2", len(found))
	}
	bursts := strings.Replace(found[0][1], pciDevice, socket, 1)
	if bursts == found[0][1] {
		t.Fatalf("the first snippet does not open the device as %s", pciDevice)
	}
	open, _, _ := strings.Cut(bursts, "defer")
	path := outside(t, map[string]string{
		"main.go":   program,
		"bursts.go": source("bursts", []string{"fmt", "vionet/mbuf", "vionet/port"}, "", bursts, "return nil"),
		"conn.go":   source("conn", []string{"vionet/packet"}, open, found[1][1], ""),
	})
	for _, name := range []string{"bursts", "conn"} {
		t.Run(name, func(t *testing.T) { returnsFrames(t, path, name) })
	}
}

// outside builds a program of these files in a module of its own.
func outside(t *testing.T, files map[string]string) (path string) {
	t.Helper()
	tree, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	files["go.mod"] = fmt.Sprintf("module example.com/outside\n\ngo 1.26.0\n\nrequire vionet v0.0.0\n\nreplace vionet => %s\n", tree)
	files["go.sum"] = read(t, "../go.sum") // the network is not asked for them
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", "program")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "program")
}

// returnsFrames runs a snippet on the front end of a back end of this test's, and
// expects every frame back.
func returnsFrames(t *testing.T, path, name string) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	socket := path + "." + name
	back, err := vhost.Listen(socket, vhost.BackendConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, socket, name)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	defer end()

	rx, tx := back.RxQueue(0), back.TxQueue(0)
	until := func(what string, ok func() bool) {
		for !ok() {
			if ctx.Err() != nil {
				end() // and has written all that it will
				t.Fatalf("%s does not come about\n%s", what, out.String())
			}
			time.Sleep(time.Millisecond)
		}
	}
	for i := range 10 {
		sent := fmt.Appendf(nil, "\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x01\x88\xb5 frame %d, padded to what an Ethernet frame has", i)
		until("the program's receive queue", func() bool { return rx.Enqueue([]vhost.Frame{{Data: sent}}) == 1 })
		got := []vhost.Frame{{Data: make([]byte, 0, 2048)}}
		until("a frame of the program", func() bool { return tx.Dequeue(got) == 1 })
		if !bytes.Equal(got[0].Data, sent) {
			t.Errorf("%q came back, want %q", got[0].Data, sent)
		}
	}
}
