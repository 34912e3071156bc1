// Package hosts builds the modules that the tests in its folders run.
package hosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var built = map[string][]byte{}

// Build compiles the program in the folder `from` (relative to the test's) with $TINYGO, for wasip1 or with `flags`,
// and returns the module; later calls return the same one. Without $TINYGO it skips the test.
func Build(t *testing.T, from string, flags ...string) []byte {
	t.Helper()
	tinygo := os.Getenv("TINYGO")
	if tinygo == "" {
		t.Skip("$TINYGO names no TinyGo: make test-tinygo does")
	}
	key := from + strings.Join(flags, " ")
	if built[key] != nil {
		return built[key]
	}
	out := filepath.Join(t.TempDir(), "module.wasm")
	arguments := append([]string{"build", "-target=wasip1", "-gc=custom", "-tags=custommalloc", "-no-debug", "-o", out},
		flags...)
	built[key] = made(t, exec.Command(tinygo, append(arguments, ".")...), from, out)
	return built[key]
}

// BuildC compiles a C program of this repository with the archive for wasm32, with $CC_wasm32 or clang-19. Without the
// archive it skips the test.
func BuildC(t *testing.T, source string) []byte {
	t.Helper()
	clang := os.Getenv("CC_wasm32")
	if clang == "" {
		clang = "clang-19"
	}
	root := "../../.."
	archive := root + "/build/wasm32/libglebe-override.a"
	if _, err := os.Stat(archive); err != nil {
		t.Skip("no archives for wasm32: make wasm")
	}
	out := filepath.Join(t.TempDir(), "module.wasm")
	return made(t, exec.Command(clang, "--target=wasm32-wasi", "-O2", "-mbulk-memory", "-fno-builtin",
		"-I"+root+"/include", root+"/"+source, archive, "-Wl,--max-memory=25165824", "-o", out), ".", out)
}

func made(t *testing.T, command *exec.Cmd, in, out string) []byte {
	t.Helper()
	command.Dir = in
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command.Args, " "), err, said)
	}
	module, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// Long reports whether GLEBE_TEST_LONG is set.
func Long() bool { return os.Getenv("GLEBE_TEST_LONG") != "" }

// Times returns `few`, or ten times that if Long.
func Times(few int) int {
	if Long() {
		return 10 * few
	}
	return few
}
