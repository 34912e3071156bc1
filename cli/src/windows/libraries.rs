//! Libraries that can be put under a program: glebe.dll, and the user's paths.
//!
//! glebe.dll is beside glebe.exe; `GLEBE_TOOL_DLL` names another. Peers have no usual place. Only loading a library
//! into the process shows whether it can take it.

use anyhow::{anyhow, Context, Result};
use std::env;
use std::path::{self, Path, PathBuf};

/// The only build.
pub struct Build;

const NAME: &str = "glebe";

pub const PEERS: [(&str, &[&str]); 0] = [];

/// The names of our own builds.
pub fn builds() -> impl Iterator<Item = &'static str> {
    [NAME].into_iter()
}

/// Our own build of that name, if there is one.
pub fn build(name: &str) -> Option<Build> {
    (name == NAME).then_some(Build)
}

/// mimalloc's library has no stand-in here; no program is known to need one.
pub fn stand_in(soname: &str) -> Result<PathBuf> {
    Err(anyhow!("there is no stand-in for {soname} on Windows"))
}

impl Build {
    /// The path of the library.
    pub fn place(&self) -> Result<PathBuf> {
        if let Some(dll) = env::var_os("GLEBE_TOOL_DLL").filter(|dll| !dll.is_empty()) {
            return usable(Path::new(&dll)).context("GLEBE_TOOL_DLL");
        }
        let dll = env::current_exe()?.with_file_name("glebe.dll");
        usable(&dll).context("put glebe.dll beside glebe.exe, or name it by GLEBE_TOOL_DLL")
    }
}

/// The absolute path of an existing file.
pub fn usable(path: &Path) -> Result<PathBuf> {
    let shown = path.display();
    let whole = path::absolute(path).map_err(|e| anyhow!("{shown}: {e}"))?;
    whole.is_file().then_some(whole).ok_or_else(|| anyhow!("{shown}: there is no such file"))
}

/// `C:\x\mimalloc.dll` is mimalloc.
pub fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Finds nothing: peers have no usual place.
pub fn find(_files: &[&str]) -> Option<PathBuf> {
    None
}
