package images

import (
	"errors"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Choice{
		"": {Tier: Standard}, "core": {Tier: Core}, "standard": {Tier: Standard}, "full": {Tier: Full},
		"image:core": {Reference: "core"}, "image:registry.example:5000/team/analysis:2": {Reference: "registry.example:5000/team/analysis:2"},
		"image:image:latest": {Reference: "image:latest"}, // an image may be called that
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("%q does not come back: %q", text, got)
		}
	}
	var unknown *UnknownTierError
	if _, err := Parse("python:3.12"); !errors.As(err, &unknown) || err.Error() != `unknown image tier "python:3.12"; there are core, standard and full` {
		t.Errorf("a reference without the prefix: %v", err)
	}
	for _, text := range []string{"image:", "image:team/UPPER", "image:a b", "image:x\nRUN evil", "image:--flag", "image:a:b:c"} {
		var bad *BadReferenceError
		if c, err := Parse(text); !errors.As(err, &bad) {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
}
