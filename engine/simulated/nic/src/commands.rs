//! The command interface of a NIC: its firmware makes and destroys QPs and regions, one after the other. Traffic meets
//! this on the link, in the caches, and at the pipeline if a command holds that.

use kelpie_events::Picos;

use crate::cache::{Cached, Key, LINE};
use crate::command::{Command, Object};
use crate::held::{Purpose, Write, class, kind};
use crate::nic::{Event, Nic, Outside};

/// Lines of a command with its mailbox. Source: mlx5, `struct mlx5_cmd_layout` and `struct mlx5_cmd_prot_block`, 64 B
/// and 512 B and more; a block here.
const INPUT_LINES: u64 = 9;

impl Nic {
    /// The driver rang the doorbell of the command queue: the NIC reads the command.
    pub(crate) fn take_command(&mut self, command: Command) {
        self.commands.push_back(command);
        if self.commands.len() == 1 {
            self.read_command();
        }
    }

    fn read_command(&mut self) {
        let amount = self.path.link.amount(INPUT_LINES * LINE);
        self.reads.want(class::WQE, Purpose::Command, self.config.home, amount);
    }

    /// A command is on the NIC.
    pub(crate) fn has_command(&mut self, now: Picos, out: &mut impl Outside) {
        out.at(now + self.config.commands.firmware, Event::Commanded);
    }

    /// The firmware is done with a command.
    pub(crate) fn commanded(&mut self, now: Picos, out: &mut impl Outside) {
        let Some(command) = self.commands.pop_front() else { return };
        let (cached, first, lines) = self.kept_of(command);
        for key in first.into_iter().flat_map(|first| (0..lines).map(move |line| first.plus(line))) {
            if command.makes {
                self.caches[cached as usize].keep(key);
            } else {
                self.caches[cached as usize].forget(key);
            }
        }
        if command.makes {
            self.writes.push_back(Write::Lines(2 * lines));
            self.write(now, out);
        } else {
            self.hold_pipeline(now);
        }
        out.commanded(now);
        if !self.commands.is_empty() {
            self.read_command();
        }
    }

    /// What the NIC keeps of an object: the cache, and the lines from each of two keys on.
    fn kept_of(&self, command: Command) -> (Cached, [Key; 2], u32) {
        let number = command.number;
        match command.object {
            Object::Qp => {
                let lines = self.config.context_tables * self.config.context_lines;
                (Cached::Context, [kind::REQUESTER, kind::RESPONDER].map(|kind| Key::new(kind, number, 0)), lines)
            }
            Object::Region => {
                (Cached::Translation, [kind::REGION, kind::PAGES].map(|kind| Key::new(kind, number, 0)), 1)
            }
        }
    }

    /// Packets wait until the pipeline knows no more of what was destroyed.
    fn hold_pipeline(&mut self, now: Picos) {
        let hold = self.config.commands.hold;
        if hold > Picos::ZERO {
            self.pipeline.hold(now, hold);
        }
    }
}
