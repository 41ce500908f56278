package server

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"brig/orchestrator/api"
)

// strictKeys finds the members of a JSON body that are not called exactly as the schema
// says, or that come twice: of both, encoding/json would take one silently. What
// else is wrong with the body huma finds.
func strictKeys(body string, schema *huma.Schema, all huma.Registry) []api.FieldError {
	k := &keys{in: json.NewDecoder(strings.NewReader(body)), all: all}
	k.in.UseNumber() // nothing is converted
	if err := k.value(schema, "body"); err != nil && !errors.Is(err, errManyKeys) {
		return nil // no JSON: huma says so
	}
	return k.wrong
}

type keys struct {
	in    *json.Decoder
	all   huma.Registry
	wrong []api.FieldError
}

var errManyKeys = errors.New("enough is wrong")

func (k *keys) value(s *huma.Schema, at string) error {
	token, err := k.in.Token()
	if err != nil {
		return err
	}
	for s != nil && s.Ref != "" {
		s = k.all.SchemaFromRef(s.Ref)
	}
	switch token {
	case json.Delim('{'):
		return k.object(s, at)
	case json.Delim('['):
		var items *huma.Schema
		if s != nil {
			items = s.Items
		}
		for i := 0; k.in.More(); i++ {
			if err := k.value(items, at+"["+strconv.Itoa(i)+"]"); err != nil {
				return err
			}
		}
		_, err = k.in.Token()
		return err
	default:
		return nil
	}
}

func (k *keys) object(s *huma.Schema, at string) error {
	seen := map[string]bool{}
	for k.in.More() {
		token, err := k.in.Token()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		if !ok {
			return io.ErrUnexpectedEOF
		}
		var of *huma.Schema
		if s != nil {
			of = s.Properties[name]
		}
		where := at + "." + plain(name, maxLocation)
		switch {
		case seen[name]:
			k.wrong = append(k.wrong, api.FieldError{Location: where, Message: "comes twice"})
		case of == nil && s != nil && len(s.Properties) > 0:
			k.wrong = append(k.wrong, api.FieldError{Location: where, Message: "unexpected property"})
		}
		if len(k.wrong) == maxFieldErrors {
			return errManyKeys
		}
		seen[name] = true
		if err := k.value(of, where); err != nil {
			return err
		}
	}
	_, err := k.in.Token()
	return err
}
