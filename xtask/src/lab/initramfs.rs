//! Writes a cpio archive (format `newc`), device node included, without being root. Knows nothing of guests.
//!
//! Source: Linux, `Documentation/driver-api/early-userspace/buffer-format.rst`.

const DIRECTORY: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// An archive under construction.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY, (0, 0), &[]);
    }

    pub fn executable(&mut self, name: &str, content: &[u8]) {
        self.entry(name, EXECUTABLE, (0, 0), content);
    }

    /// The console of the first process: character device 5, 1.
    pub fn console(&mut self, name: &str) {
        self.entry(name, CHARACTER_DEVICE, (5, 1), &[]);
    }

    /// The archive with its trailer.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(content.len()).expect("a guest's files are below 4 GiB");
        let name_size = u32::try_from(name.len()).expect("names are short") + 1;
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    #[test]
    fn entries_are_aligned_and_end_with_the_trailer() {
        let mut archive = Archive::default();
        archive.directory("dev");
        archive.executable("init", b"#!/bin/sh\n");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        // Header (110 bytes), "dev\0" (4), two bytes of padding.
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[116..122], b"070701");
        // Field 7 of the second header is the size of the content, in hexadecimal.
        assert_eq!(&bytes[116 + 6 + 48..116 + 6 + 56], b"0000000a");
        assert!(bytes.windows(10).any(|window| window == b"TRAILER!!!"));
    }
}
