package config

import "strings"

// foldVariable: names of variables have no case here.
func foldVariable(name string) string { return strings.ToUpper(name) }
