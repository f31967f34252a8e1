package testpmd

import (
	"io"
	"unicode/utf8"
)

// key is a key that people press; those below keyUp are the characters
// themselves.
type key rune

// Keys that are characters.
const (
	keyHome      key = 0x01 // Ctrl-A
	keyLeft      key = 0x02 // Ctrl-B
	keyInterrupt key = 0x03 // Ctrl-C
	keyDelete    key = 0x04 // Ctrl-D
	keyEnd       key = 0x05 // Ctrl-E
	keyRight     key = 0x06 // Ctrl-F
	keyTab       key = '\t'
	keyNewline   key = '\n'
	keyKill      key = 0x0b // Ctrl-K
	keyRefresh   key = 0x0c // Ctrl-L
	keyEnter     key = '\r'
	keyDown      key = 0x0e // Ctrl-N
	keyUp        key = 0x10 // Ctrl-P
	keyDiscard   key = 0x15 // Ctrl-U
	keyKillWord  key = 0x17 // Ctrl-W
	keyEscape    key = 0x1b
	keyErase     key = 0x7f
	keyBackspace key = '\b'
	keyHelp      key = '?'
	firstShown   key = ' '
)

// keyNothing is a key without a meaning here. It is no character.
const keyNothing key = -1

// keyNames gives the keys that terminals send as an escape sequence: what stands
// behind "ESC [" or "ESC O".
var keyNames = map[string]key{
	"A": keyUp, "B": keyDown, "C": keyRight, "D": keyLeft, "H": keyHome, "F": keyEnd,
	"1~": keyHome, "3~": keyDelete, "4~": keyEnd, "7~": keyHome, "8~": keyEnd,
}

// keyReader reads keys. What was typed ahead waits in it.
type keyReader struct {
	in     io.Reader
	ahead  []byte
	buffer [256]byte
}

// next waits for a key.
func (r *keyReader) next() (key, error) {
	for !utf8.FullRune(r.ahead) {
		if err := r.fill(); err != nil {
			return keyNothing, err
		}
	}
	char, n := utf8.DecodeRune(r.ahead)
	r.ahead = r.ahead[n:]
	if key(char) == keyEscape {
		return r.escaped()
	}
	return key(char), nil
}

// fill waits for more.
func (r *keyReader) fill() error {
	n, err := r.in.Read(r.buffer[:])
	r.ahead = append(r.ahead, r.buffer[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

// longestEscape bounds an escape sequence, so that noise on a line is not taken
// for one for ever.
const longestEscape = 16

// escaped reads the rest of an escape sequence.
func (r *keyReader) escaped() (key, error) {
	char, err := r.char()
	if err != nil || char != '[' && char != 'O' {
		return keyNothing, err
	}
	var name []byte
	for len(name) < longestEscape {
		if char, err = r.char(); err != nil {
			return keyNothing, err
		}
		name = append(name, char)
		if char >= '@' && char <= '~' {
			break
		}
	}
	if k, ok := keyNames[string(name)]; ok {
		return k, nil
	}
	return keyNothing, nil
}

func (r *keyReader) char() (byte, error) {
	for len(r.ahead) == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	char := r.ahead[0]
	r.ahead = r.ahead[1:]
	return char, nil
}
