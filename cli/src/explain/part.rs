//! The parts of a resident set.

/// The parts, in the order of the waterfall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    LiveSmall,
    LiveMedium,
    LiveLarge,
    LiveHuge,
    LiveCollected,
    FreeInPages,
    Retained,
    HugePageExcess,
    Tables,
    Brk,
    Stacks,
    Others,
    Shared,
    Code,
    Data,
}

impl Part {
    pub const ALL: [Part; 15] = [
        Part::LiveSmall,
        Part::LiveMedium,
        Part::LiveLarge,
        Part::LiveHuge,
        Part::LiveCollected,
        Part::FreeInPages,
        Part::Retained,
        Part::HugePageExcess,
        Part::Tables,
        Part::Brk,
        Part::Stacks,
        Part::Others,
        Part::Shared,
        Part::Code,
        Part::Data,
    ];

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Part::LiveSmall => "live_small",
            Part::LiveMedium => "live_medium",
            Part::LiveLarge => "live_large",
            Part::LiveHuge => "live_huge",
            Part::LiveCollected => "live_collected",
            Part::FreeInPages => "free_in_pages",
            Part::Retained => "retained",
            Part::HugePageExcess => "huge_page_excess",
            Part::Tables => "tables",
            Part::Brk => "brk",
            Part::Stacks => "stacks",
            Part::Others => "other_mappings",
            Part::Shared => "shared",
            Part::Code => "file_code",
            Part::Data => "file_data",
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Part::LiveSmall => "live blocks up to 2 KiB",
            Part::LiveMedium => "live blocks up to 64 KiB",
            Part::LiveLarge => "live blocks up to 1 MiB",
            Part::LiveHuge => "live blocks over 1 MiB",
            Part::LiveCollected => "pages of a collector",
            Part::FreeInPages => "free bytes in pages in use",
            Part::Retained => "retained for reuse",
            Part::HugePageExcess => "huge pages, never used",
            Part::Tables => "tables of glebe",
            Part::Brk => "the C library's brk heap",
            Part::Stacks => "stacks",
            Part::Others => "other anonymous mappings",
            Part::Shared => "shared memory",
            Part::Code => "files: code",
            Part::Data => "files: data",
        }
    }

    /// True for the parts that only glebe has.
    pub fn of_glebe(self) -> bool {
        self <= Part::Tables
    }
}
