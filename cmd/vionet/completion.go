package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// completions are the scripts that make a shell complete vionet's command line:
// each asks the program itself.
var completions = map[string]string{
	"bash": `_vionet() {
	local words
	words=$("${COMP_WORDS[@]:0:COMP_CWORD}" --generate-bash-completion 2>/dev/null)
	COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _vionet vionet
`,
	"zsh": `#compdef vionet
_vionet() {
	local -a found
	found=(${(f)"$(${words[1,CURRENT-1]} --generate-bash-completion 2>/dev/null)"})
	compadd -- $found
	_files
}
compdef _vionet vionet
`,
	"fish": `complete -c vionet -a '(set -l w (commandline -opc); $w --generate-bash-completion 2>/dev/null)'
`,
}

func completionCommand() *cli.Command {
	shells := slices.Sorted(maps.Keys(completions))
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes vionet's command line",
		ArgsUsage: strings.Join(shells, "|"),
		Description: `bash: source <(vionet completion bash)
zsh:  source <(vionet completion zsh)
fish: vionet completion fish | source`,
		BashComplete: func(c *cli.Context) { fmt.Fprintln(c.App.Writer, strings.Join(shells, "\n")) },
		Action: func(c *cli.Context) error {
			script, ok := completions[c.Args().First()]
			if !ok || c.Args().Len() != 1 {
				return fmt.Errorf("completion: name a shell: %s", strings.Join(shells, ", "))
			}
			_, err := fmt.Fprint(c.App.Writer, script)
			return err
		},
	}
}

var optionName = regexp.MustCompile(`(?m)(?:^  |, )(--?[a-z-]+)`)

// completeTestpmd prints the options that the help of testpmd names.
func completeTestpmd(c *cli.Context) {
	for _, m := range optionName.FindAllStringSubmatch(testpmdHelp, -1) {
		fmt.Fprintln(c.App.Writer, m[1])
	}
}
