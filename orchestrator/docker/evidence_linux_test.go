package docker

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"
)

var (
	recordAs      = flag.String("record", "", "write what is read back of a container to testdata/evidence/`NAME`.json")
	recordRuntime = flag.String("record-runtime", "runc", "its `RUNTIME`")
)

// TestRecordEvidence records one container of the engine that DOCKER_HOST names. The
// expectations of a new file are written by hand.
func TestRecordEvidence(t *testing.T) {
	if *recordAs == "" {
		return
	}
	b := newBackend(t)
	base := coreBase()
	base.Runtime = *recordRuntime
	made, err := b.Prepare(limited(t), base, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close(limited(t))
	p := made.(*prepared)
	out, err := p.engine.cli.ContainerInspect(limited(t), p.container.id)
	if err != nil {
		t.Fatal(err)
	}
	ev := gather(p.engine, p.spec, out, p.ready, nil)
	info := p.engine.info
	for i, option := range out.HostConfig.SecurityOpt {
		if strings.HasPrefix(option, "seccomp=") {
			out.HostConfig.SecurityOpt[i] = "seccomp={}" // shortened; the test compares no more
		}
	}
	for i := range out.Mounts {
		out.Mounts[i].Source = "/home/somebody/work"
	}
	for i := range out.HostConfig.Mounts {
		out.HostConfig.Mounts[i].Source = "/home/somebody/work"
	}
	for i := range p.ready.Observed.Mounts { // a layer's directories are long and say nothing
		if m := &p.ready.Observed.Mounts[i]; m.FSType == "overlay" {
			m.Options, _, _ = strings.Cut(m.Options, ",lowerdir")
		}
	}
	out.Config.Labels = nil
	text, err := json.MarshalIndent(taken{
		Source: "recorded from Docker " + p.engine.version.Version + ", shortened",
		Info: system.Info{
			SecurityOptions: info.SecurityOptions, Runtimes: info.Runtimes, DefaultRuntime: info.DefaultRuntime, CgroupVersion: info.CgroupVersion,
			CgroupDriver: info.CgroupDriver, KernelVersion: info.KernelVersion, OperatingSystem: info.OperatingSystem, NCPU: info.NCPU,
			MemoryLimit: info.MemoryLimit, SwapLimit: info.SwapLimit, PidsLimit: info.PidsLimit, CPUCfsQuota: info.CPUCfsQuota, Warnings: info.Warnings,
		},
		Inspect: container.InspectResponse{
			ContainerJSONBase: &container.ContainerJSONBase{
				ID: out.ID, Image: out.Image, AppArmorProfile: out.AppArmorProfile, ProcessLabel: out.ProcessLabel, HostConfig: out.HostConfig,
			},
			Config: out.Config, Mounts: out.Mounts,
		},
		Ready: p.ready, Outside: ev.outside.groups, Label: ev.outside.label,
	}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", "evidence", *recordAs+".json"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
