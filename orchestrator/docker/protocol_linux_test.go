package docker

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"brig/images"
	"brig/orchestrator/docker/enginetest"
)

// TestTheFakeSpeaksAsTheEngine asks the same of the fake and of the engine of this
// machine and compares status, headers and the shape of every field that brig reads
// with a recording of Docker 20.10. BRIG_TEST_RECORD=1 writes the recording anew.
func TestTheFakeSpeaksAsTheEngine(t *testing.T) {
	const recording = "testdata/protocol-docker-20.10.txt"
	b := engineBackend(t, images.Core)
	e, err := b.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	fake := fakeEngine(t, enginetest.Options{})
	faked := fakeBackend(t, fake)
	if os.Getenv("BRIG_TEST_RECORD") != "" {
		if err := os.WriteFile(filepath.FromSlash(recording), []byte(transcript(t, b)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(filepath.FromSlash(recording))
	if err != nil {
		t.Fatal(err)
	}
	differs(t, "the fake", transcript(t, faked), string(want))
	if strings.HasPrefix(e.version.Version, "20.10.") {
		differs(t, "the engine", transcript(t, b), string(want))
	}
}

func differs(t *testing.T, who, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for n := range max(len(a), len(b)) {
		var x, y string
		if n < len(a) {
			x = a[n]
		}
		if n < len(b) {
			y = b[n]
		}
		if x != y {
			t.Errorf("%s, line %d:\n  says    %s\n  not     %s", who, n+1, x, y)
		}
	}
}

// talk is a conversation with an engine below the SDK.
type talk struct {
	t    *testing.T
	path string // of the socket
	http *http.Client
	out  strings.Builder
}

// transcript asks for everything that brig asks for, the wrong way too.
func transcript(t *testing.T, b *Backend) string {
	t.Helper()
	e, err := b.current(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	ref, err := b.ensureImage(limited(t), images.Core)
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(e.endpoint, "unix://")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	transport := &http.Transport{DialContext: dial}
	defer transport.CloseIdleConnections()
	k := &talk{t: t, path: path, http: &http.Client{Transport: transport}}
	owner, name := "talk-"+token(), "brig-talk-"+token()
	filter := url.QueryEscape(`{"label":["dev.brig.owner=` + owner + `"]}`)
	config := fmt.Sprintf(`{"Image":%q,"Labels":{"dev.brig.owner":%q},"OpenStdin":true,"StdinOnce":true,"AttachStdin":true,"AttachStdout":true,"AttachStderr":true,`+
		`"StopSignal":"SIGKILL","HostConfig":{"AutoRemove":true,"NetworkMode":"none","LogConfig":{"Type":"none"},"IpcMode":"private","CapDrop":["ALL"],`+
		`"Tmpfs":{"/scratch":"size=1000000"},"Ulimits":[{"Name":"nofile","Soft":64,"Hard":64}],"PidsLimit":64,"SecurityOpt":["no-new-privileges"]}}`, ref.ID, owner)

	k.ask("GET", "/_ping", "", nil)
	k.ask("GET", "/version", "", []string{"Version", "ApiVersion", "MinAPIVersion", "Os", "Arch", "Components.Name"})
	k.ask("GET", "/info", "", []string{
		"ID", "NCPU", "MemTotal", "MemoryLimit", "SwapLimit", "PidsLimit", "CpuCfsQuota", "CgroupVersion", "KernelVersion",
		"OperatingSystem", "OSType", "Architecture", "Runtimes.runc.path", "DefaultRuntime", "SecurityOptions", "ServerVersion",
	})
	k.ask("GET", "/images/json?filters="+url.QueryEscape(`{"label":["dev.brig.content=`+ref.Content+`"]}`), "", []string{"Id", "RepoTags", "Labels", "Created", "Size"})
	k.ask("GET", "/images/no-such-image/json", "", []string{"message"})
	k.ask("GET", "/images/"+ref.ID+"/json", "", []string{"Id", "RepoTags", "Config.Labels", "Config.User", "Config.Entrypoint", "Config.WorkingDir"})
	k.ask("POST", "/containers/create?name="+name, `{"Image":"no-such-image"}`, []string{"message"})
	k.ask("POST", "/containers/create?name=a/b", config, []string{"message"})
	id := k.ask("POST", "/containers/create?name="+name, config, []string{"Id", "Warnings"})["Id"].(string)
	defer k.ask("DELETE", "/containers/"+id+"?force=1", "", []string{"message"}) // in the recording as well: there is nothing left
	k.ask("POST", "/containers/create?name="+name, config, []string{"message"})
	inspect := []string{
		"Id", "Image", "Name", "State.Status", "State.Running", "State.Paused", "State.OOMKilled", "State.Pid", "State.ExitCode", "Config.User", "Config.StdinOnce",
		"Config.OpenStdin", "Config.Labels", "Config.StopSignal", "Config.Tty", "HostConfig.AutoRemove", "HostConfig.NetworkMode", "HostConfig.IpcMode",
		"HostConfig.PidsLimit", "HostConfig.LogConfig.Type", "HostConfig.CapDrop", "HostConfig.SecurityOpt", "HostConfig.Tmpfs", "HostConfig.Ulimits",
		"HostConfig.Memory", "HostConfig.Privileged", "HostConfig.MaskedPaths", "HostConfig.Runtime", "Mounts", "AppArmorProfile",
	}
	k.ask("GET", "/containers/"+id+"/json", "", inspect)
	k.ask("POST", "/containers/"+id+"/kill?signal=KILL", "", []string{"message"})
	stream := k.open("POST", "/containers/"+id+"/attach?stream=1&stdin=1&stdout=1&stderr=1")
	waiting := k.open("POST", "/containers/"+id+"/wait?condition=next-exit")
	k.ask("POST", "/containers/"+id+"/start", "", nil)
	k.ask("POST", "/containers/"+id+"/start", "", nil)
	k.ask("GET", "/containers/"+name+"/json", "", inspect)
	k.ask("GET", "/containers/json?all=1&filters="+filter, "", []string{"Id", "Names", "Labels", "State", "Status", "ImageID"})
	k.ask("POST", "/containers/"+id+"/unpause", "", []string{"message"})
	k.ask("POST", "/containers/"+id+"/pause", "", nil)
	k.ask("POST", "/containers/"+id+"/pause", "", []string{"message"})
	k.ask("POST", "/containers/"+id+"/unpause", "", nil)
	k.ask("DELETE", "/containers/"+id, "", []string{"message"})
	gone := k.open("POST", "/containers/"+id+"/wait?condition=removed")
	k.ask("POST", "/containers/"+id+"/kill?signal=KILL", "", nil)
	k.finish("the stream", stream, nil)
	k.finish("the wait for the exit", waiting, []string{"StatusCode", "Error"})
	k.finish("the wait for the removal", gone, []string{"StatusCode", "Error"})
	k.ask("GET", "/containers/"+id+"/json", "", []string{"message"})
	k.ask("POST", "/containers/"+id+"/start", "", []string{"message"})
	k.ask("POST", "/containers/"+id+"/wait", "", []string{"message"})
	k.ask("POST", "/containers/"+id+"/kill", "", []string{"message"})
	k.ask("DELETE", "/containers/"+id+"?force=1", "", []string{"message"})
	k.ask("GET", "/no/such/thing", "", []string{"message"})
	return k.mask(k.out.String(), id, name, owner, ref.ID, ref.Content)
}

// mask takes out what is different each time.
func (k *talk) mask(text string, words ...string) string {
	for n, word := range words {
		text = strings.ReplaceAll(text, word, []string{"ID", "NAME", "OWNER", "IMAGE", "CONTENT"}[n])
		text = strings.ReplaceAll(text, url.QueryEscape(word), []string{"ID", "NAME", "OWNER", "IMAGE", "CONTENT"}[n])
	}
	return text
}

const spoken = "/v1.41"

// ask notes the status and the types of the fields, and returns the answer.
func (k *talk) ask(method, path, body string, fields []string) map[string]any {
	k.t.Helper()
	request, err := http.NewRequestWithContext(limited(k.t), method, "http://engine"+spoken+path, strings.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := k.http.Do(request)
	if err != nil {
		k.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		k.t.Fatalf("%s %s: %v", method, path, err)
	}
	fmt.Fprintf(&k.out, "%s %s\n  %d %s, api %s, os %s\n", method, path, response.StatusCode,
		response.Header.Get("Content-Type"), response.Header.Get("Api-Version"), response.Header.Get("Ostype"))
	return k.shape(text, fields)
}

func (k *talk) shape(text []byte, fields []string) map[string]any {
	var decoded any
	if len(fields) > 0 && json.Unmarshal(text, &decoded) != nil {
		fmt.Fprintf(&k.out, "  no JSON\n")
	}
	if list, ok := decoded.([]any); ok {
		fmt.Fprintf(&k.out, "  a list\n")
		decoded = map[string]any{}
		if len(list) > 0 {
			decoded = list[0]
		}
	}
	for _, field := range fields {
		fmt.Fprintf(&k.out, "  %s %s\n", field, typeAt(decoded, strings.Split(field, ".")))
	}
	object, _ := decoded.(map[string]any)
	return object
}

func typeAt(v any, path []string) string {
	if list, ok := v.([]any); ok && len(path) > 0 && len(list) > 0 {
		v = list[0]
	}
	if len(path) > 0 {
		object, ok := v.(map[string]any)
		if !ok {
			return "absent"
		}
		inner, ok := object[path[0]]
		if !ok {
			return "absent"
		}
		return typeAt(inner, path[1:])
	}
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		if slices.Contains([]string{"created", "running", "paused", "exited"}, v) {
			return "string " + v
		}
		return "string"
	case bool:
		return fmt.Sprintf("bool %v", v)
	case float64:
		return "number"
	case []any:
		if len(v) == 0 {
			return "empty list"
		}
		return "list of " + strings.Fields(typeAt(v[0], nil))[0]
	default:
		return "object"
	}
}

// open sends a request whose answer goes on, and notes its beginning.
func (k *talk) open(method, path string) *bufio.Reader {
	k.t.Helper()
	conn, err := net.Dial("unix", k.path)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = conn.Close() })
	upgrade := ""
	if strings.Contains(path, "/attach") {
		upgrade = "Connection: Upgrade\r\nUpgrade: tcp\r\n"
	}
	fmt.Fprintf(conn, "%s %s%s HTTP/1.1\r\nHost: engine\r\n%sContent-Length: 0\r\n\r\n", method, spoken, path, upgrade)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		k.t.Fatalf("%s %s: %v", method, path, err)
	}
	fmt.Fprintf(&k.out, "%s %s\n  %s, %s, upgrade %q, transfer %v\n", method, path, response.Status,
		response.Header.Get("Content-Type"), response.Header.Get("Upgrade"), response.TransferEncoding)
	if upgrade == "" {
		return bufio.NewReader(response.Body)
	}
	return reader
}

// finish notes how an answer that went on has ended.
func (k *talk) finish(what string, r *bufio.Reader, fields []string) {
	k.t.Helper()
	text, err := io.ReadAll(r)
	fmt.Fprintf(&k.out, "%s ended: %v\n", what, err)
	if fields != nil {
		k.shape(text, fields)
	}
}
