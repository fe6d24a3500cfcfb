//! The inside of a host from what other programs write of it: NCCL's topology XML, `lspci -vvv`, `nvidia-smi topo -m`;
//! and NCCL's XML from it. Files of the machine itself are read in `discover`.

mod building;
mod lspci;
mod nccl;
mod relations;

pub use building::Imported;
pub use nccl::to_nccl;

/// Reads a host from what one of these programs wrote; which one it was is told by the text. `file` stands for it.
///
/// # Errors
/// If the text is of none of them, or describes no host.
pub fn import(file: &str, bytes: &[u8]) -> Result<Imported, String> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| format!("{file}: no UTF-8 from byte {}", error.valid_up_to()))?;
    // nvidia-smi underlines its heading, also into a file.
    let plain = text.replace("\u{1b}[4m", "").replace("\u{1b}[0m", "");
    let text = plain.as_str();
    let read = if text.trim_start().starts_with('<') {
        nccl::read(text)
    } else if relations::is_like(text) {
        relations::read(text)
    } else if lspci::is_like(text) {
        lspci::read(text)
    } else {
        Err("neither NCCL's topology XML, nor of `lspci -vvv`, nor of `nvidia-smi topo -m`".to_owned())
    };
    read.map_err(|problem| format!("{file}: {}", crate::matrix::shown(&problem)))
}
