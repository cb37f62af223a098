//! The block size on the command line.

use syncline_store::Block;

/// A block size, given or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockSize {
    /// The size that is expected to take the least time.
    Auto,
    /// A given number of rows and columns.
    Of(Block),
}

impl BlockSize {
    /// Returns the size, if it was given.
    pub(crate) const fn given(self) -> Option<Block> {
        match self {
            Self::Auto => None,
            Self::Of(block) => Some(block),
        }
    }
}

/// Parses `auto`, or a size as [`parse_block`] does.
pub(crate) fn parse_block_size(text: &str) -> Result<BlockSize, String> {
    match text {
        "auto" => Ok(BlockSize::Auto),
        _ => parse_block(text).map(BlockSize::Of),
    }
}

/// Parses `512` (a square) or `256x1024` (rows and columns).
fn parse_block(text: &str) -> Result<Block, String> {
    let side = |side: &str| match side.trim().parse::<usize>() {
        Ok(0) => Err("a block has at least one row and one column".to_owned()),
        Ok(side) => Ok(side),
        Err(_) => {
            Err("a block is one number, as 512, or rows x columns, as 256x1024, or auto".to_owned())
        }
    };
    match text.split_once(['x', 'X']) {
        Some((rows, cols)) => Ok(Block::new(side(rows)?, side(cols)?)),
        None => side(text).map(|side| Block::new(side, side)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syncline_testkit::property;

    use super::*;

    #[test]
    fn blocks_are_read() {
        assert_eq!(parse_block("512"), Ok(Block::new(512, 512)));
        assert_eq!(parse_block("2x7"), Ok(Block::new(2, 7)));
        assert_eq!(parse_block("2 X 7"), Ok(Block::new(2, 7)));
        for text in ["", "0", "3x0", "x", "3x", "-1", "1.5", "2x3x4", "many"] {
            assert!(parse_block(text).is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(property(256))]

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            let _ = parse_block(&text);
        }
    }
}
