package testpmd

import "strings"

func helpCommands() []*command {
	var names []string
	for _, s := range sections {
		names = append(names, s.name)
	}
	return []*command{
		{pattern: "help", run: (*Console).helpSections},
		{pattern: "help (" + strings.Join(names, "|") + "|all)", run: (*Console).helpSection},
	}
}

func (c *Console) helpSections(args) {
	c.printf("\nHelp is available for the following sections:\n\n")
	for _, s := range sections {
		c.printf("    help %-26s : %s\n", s.name, s.about)
	}
	c.printf("    help %-26s : All of the above sections.\n\n", "all")
}

func (c *Console) helpSection(a args) {
	for _, s := range sections {
		if a[1] != s.name && a[1] != "all" {
			continue
		}
		c.printf("\n%s\n%s\n\n", s.title, strings.Repeat("-", len(s.title)))
		for _, cmd := range c.commands {
			if cmd.section == s && cmd.help != "" {
				c.printf("%s\n    %s\n\n", cmd.pattern, strings.ReplaceAll(cmd.help, "\n", "\n    "))
			}
		}
	}
}
