//! A result that cannot always be read.

use serde::{Deserialize, Serialize};

/// Numbers that are not 13 squared: that is garbled.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "Vec<u64>")]
pub(crate) struct Lucky(pub(crate) Vec<u64>);

impl TryFrom<Vec<u64>> for Lucky {
    type Error = &'static str;

    fn try_from(numbers: Vec<u64>) -> Result<Lucky, Self::Error> {
        if numbers == [169] { Err("unlucky") } else { Ok(Lucky(numbers)) }
    }
}
