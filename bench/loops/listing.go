package loops

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// instruction is one line of a listing.
type instruction struct {
	pc     int
	file   string // of the innermost function that was inlined here
	line   int
	opcode string
	args   string
}

// listing is the machine code of a package, by function: "(*Split).Harvest".
type listing map[string][]instruction

var (
	functionLine    = regexp.MustCompile(`^(\S+) STEXT `)
	instructionLine = regexp.MustCompile(`^\t0x[0-9a-f]+ (\d+) \((.*?)(?::(\d+))?\)\t(\S+)(?:\t(.*))?$`)
)

// compile compiles a package for amd64, whatever machine this is, and gives its
// listing.
func compile(pkg string) (listing, error) {
	cmd := exec.Command("go", "build", "-gcflags="+pkg+"=-S", pkg)
	cmd.Env = append(os.Environ(), "GOARCH=amd64", "GOOS=linux", "CGO_ENABLED=0", "GOAMD64=v1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%v: %w:\n%s", cmd, err, out)
	}
	return parse(pkg, out)
}

func parse(pkg string, text []byte) (listing, error) {
	l := listing{}
	function := ""
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := functionLine.FindStringSubmatch(lines.Text()); m != nil {
			function = strings.TrimPrefix(m[1], pkg+".")
			continue
		}
		m := instructionLine.FindStringSubmatch(lines.Text())
		if m == nil || m[4] == "PCDATA" || m[4] == "FUNCDATA" || m[4] == "TEXT" {
			continue
		}
		i := instruction{file: m[2], opcode: m[4], args: m[5]}
		var err error
		if i.pc, err = strconv.Atoi(m[1]); err != nil {
			return nil, err
		}
		i.line, _ = strconv.Atoi(m[3]) // none: the compiler's own
		l[function] = append(l[function], i)
	}
	return l, lines.Err()
}

// calls is the function that is called, or "".
func (i instruction) calls() string {
	if i.opcode != "CALL" {
		return ""
	}
	return strings.TrimSuffix(i.args, "(SB)")
}

// barrier reports whether it asks for a write barrier.
func (i instruction) barrier() bool { return strings.HasPrefix(i.args, "runtime.writeBarrier(SB)") }

// target is where a jump goes to, or -1.
func (i instruction) target() int {
	if !strings.HasPrefix(i.opcode, "J") {
		return -1
	}
	pc, err := strconv.Atoi(i.args)
	if err != nil {
		return -1 // out of the function
	}
	return pc
}

// falls reports whether the next instruction may follow.
func (i instruction) falls() bool {
	switch i.opcode {
	case "JMP", "RET", "UNDEF":
		return false
	}
	return !strings.HasPrefix(i.calls(), "runtime.panic") && i.calls() != "runtime.goPanic"
}
