package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// flag is one option of a command line in the manner of getopt_long: long
// names with "--name=value" or "--name value", short ones with "-n value" or
// "-nvalue". Names must be written in full.
type flag struct {
	names []string // "-l", "--lcores"
	value bool     // takes one
	set   func(value string) error
}

// parseFlags runs args through flags.
func parseFlags(args []string, flags []flag) error {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if !strings.HasPrefix(arg, "-") {
			return fmt.Errorf("invalid parameter: %s", arg)
		}
		name, value, given := cutFlag(arg)
		f := findFlag(flags, name)
		switch {
		case f == nil:
			return fmt.Errorf("unrecognized option '%s'", name)
		case !f.value && given:
			return fmt.Errorf("option '%s' doesn't allow an argument", name)
		case f.value && !given:
			if len(args) == 0 {
				return fmt.Errorf("option '%s' requires an argument", name)
			}
			value, args = args[0], args[1:]
		}
		if err := f.set(value); err != nil {
			return err
		}
	}
	return nil
}

// cutFlag splits "--name=value" and "-nvalue".
func cutFlag(arg string) (name, value string, given bool) {
	if strings.HasPrefix(arg, "--") {
		return strings.Cut(arg, "=")
	}
	if len(arg) > 2 {
		return arg[:2], strings.TrimPrefix(arg[2:], "="), true
	}
	return arg, "", false
}

func findFlag(flags []flag, name string) *flag {
	for i := range flags {
		for _, n := range flags[i].names {
			if n == name {
				return &flags[i]
			}
		}
	}
	return nil
}

// boolFlag is an option without a value.
func boolFlag(names string, to *bool) flag {
	return flag{names: strings.Fields(names), set: func(string) error { *to = true; return nil }}
}

// stringFlag is an option whose value is taken as it is.
func stringFlag(names string, to *string) flag {
	return flag{names: strings.Fields(names), value: true, set: func(v string) error { *to = v; return nil }}
}

// listFlag is an option that may be given several times.
func listFlag(names string, to *[]string) flag {
	return flag{names: strings.Fields(names), value: true, set: func(v string) error { *to = append(*to, v); return nil }}
}

// intFlag is an option with a number between low and high.
func intFlag(names string, low, high int, to *int) flag {
	list := strings.Fields(names)
	return flag{names: list, value: true, set: func(v string) error {
		n, err := parseInt(list[0], v, low, high)
		if err == nil {
			*to = n
		}
		return err
	}}
}

// parseInt reads the value of the option name.
func parseInt(name, value string, low, high int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%s %s invalid - must be >= %d && <= %d", strings.TrimLeft(name, "-"), value, low, high)
	}
	return n, nil
}

// maskFlag is an option with a set of bits.
func maskFlag[M ~uint64](names string, to *M) flag {
	list := strings.Fields(names)
	return flag{names: list, value: true, set: func(v string) error {
		n, err := strconv.ParseUint(v, 0, 64)
		if err != nil {
			return fmt.Errorf("%s %s invalid - must be a number >= 0 && <= %#x", strings.TrimLeft(list[0], "-"), v, uint64(math.MaxUint64))
		}
		*to = M(n)
		return nil
	}}
}

// ignoredFlags are options that are accepted so that command lines carry
// over, and that have no effect here.
func ignoredFlags(value bool, names ...string) []flag {
	var flags []flag
	for _, n := range names {
		flags = append(flags, flag{names: []string{n}, value: value, set: func(string) error { return nil }})
	}
	return flags
}
