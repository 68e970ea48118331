package main

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"gatehouse/cmd/internal/conf"
)

// settingFlags are the flags of serve and check: --config, and one flag for each
// setting of the table that has one. kong wants a struct, so it is made from the
// table at run time.
type settingFlags struct {
	Config string `placeholder:"FILE" help:"Configuration file in YAML; see docs/config.md ($MCP_CONFIG)."`
	kong.Plugins

	names  []string // of the fields of values
	values reflect.Value
}

// addFlags makes the flags of the table.
func (f *settingFlags) addFlags() {
	var fields []reflect.StructField
	for i, s := range conf.Table() {
		if s.Flag == "" {
			continue
		}
		typ := reflect.TypeFor[*string]()
		tag := fmt.Sprintf("name:%q help:%q", s.Flag, flagHelp(s))
		if s.Type.Name == "yes or no" {
			typ = reflect.TypeFor[*bool]()
			tag += ` negatable:""`
		} else {
			tag += fmt.Sprintf(" placeholder:%q", placeholder(s))
		}
		fields = append(fields, reflect.StructField{Name: "F" + strconv.Itoa(i), Type: typ, Tag: reflect.StructTag(tag)})
		f.names = append(f.names, s.Flag)
	}
	p := reflect.New(reflect.StructOf(fields))
	f.values = p.Elem()
	f.Plugins = kong.Plugins{p.Interface()}
}

// given returns the flags that were used, as they were written.
func (f *settingFlags) given() map[string]string {
	out := map[string]string{}
	for i, name := range f.names {
		switch v := f.values.Field(i).Interface().(type) {
		case *string:
			if v != nil {
				out[name] = *v
			}
		case *bool:
			if v != nil {
				out[name] = strconv.FormatBool(*v)
			}
		}
	}
	return out
}

// flagHelp is the first sentence of a setting's help and the variable's name.
func flagHelp(s *conf.Setting) string {
	text, _, _ := strings.Cut(s.Help, ". ")
	text = strings.TrimSuffix(strings.ReplaceAll(text, "`", ""), ".")
	if s.Env != "" {
		text += " ($" + s.Env + ")"
	}
	return text + "."
}

// placeholder stands for a flag's value in the help.
func placeholder(s *conf.Setting) string {
	switch word := s.Type.Name; {
	case word == "word":
		return strings.ReplaceAll(strings.ReplaceAll(s.Type.Accepts, " or ", "|"), ", ", "|")
	case strings.HasPrefix(word, "duration"):
		return "8h"
	case word == "size":
		return "16MiB"
	case strings.HasPrefix(word, "list"):
		return "A,B"
	case word == "command", word == "object":
		return "JSON"
	case word == "whole number", word == "number":
		return "N"
	case word == "URL":
		return "URL"
	case word == "path":
		return "PATH"
	}
	return "TEXT"
}

// load merges and validates the configuration of this machine.
func (f *settingFlags) load(s streams) (*conf.Config, []string, error) {
	host, err := conf.ThisHost()
	if err != nil {
		return nil, nil, fmt.Errorf("look at this machine: %w", err)
	}
	c, warnings, err := conf.Load(conf.Input{Flags: f.given(), Environ: s.environ, File: f.Config}, host)
	return c, warnings, err
}
