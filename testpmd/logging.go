package testpmd

func logCommands() []*command {
	return []*command{
		{section: configSection, pattern: "set log (type) (level)", help: "Set the level of log messages, of one kind or global: 1 emergencies to 8 debug.", run: (*Console).setLog},
		{section: displaySection, pattern: "dump_log_types", help: "List the levels of log messages.", run: func(c *Console, a args) { c.dumpLogTypes() }},
	}
}

// Levels of log messages.
const maxLogLevel = 8

func (c *Console) setLog(a args) {
	n := a.num(3)
	if n > maxLogLevel {
		c.errorf("log level %d > %d (maximum level) - ignored\n", n, maxLogLevel)
		return
	}
	if c.SetLog == nil {
		return
	}
	if err := c.SetLog(a[2], int(n)); err != nil {
		c.errorf("Unable to set log level: %v\n", err)
	}
}

func (c *Console) dumpLogTypes() {
	if c.LogLevels == nil {
		return
	}
	for _, line := range c.LogLevels() {
		c.printf("%s\n", line)
	}
}
