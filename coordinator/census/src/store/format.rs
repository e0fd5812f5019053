//! The format that a store says it has, and which formats this program knows.

use serde::{Deserialize, Serialize};
use trailtrap_shared::{
    class::Class,
    game::GameName,
    labelling::LABELLING,
    partition::{BLOCK_FORMAT, OLDEST_BLOCK_FORMAT},
};

use super::error::StoreError;

/// Version of the layout of keys and records …
pub(super) const STORE_FORMAT: u16 = 3;
/// … of a store in which an order was limited to graphs with few edges, or lacks its graphs:
/// programs that do not know of this would take the result for that of the whole order, and what
/// is not there for damaged.
pub(super) const LATER_FORMAT: u16 = 4;
/// … of a store whose blocks lie in a depot.
pub(super) const DEPOT_FORMAT: u16 = 5;
/// … of a store whose blocks lie on shelves.
pub(super) const SHELVES_FORMAT: u16 = 6;
/// … of a store of a rehearsal, whose results are invented: no program takes it for another.
pub(super) const REHEARSAL_FORMAT: u16 = u16::MAX;

/// What a store says of its format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoreFormat {
    pub store: u16,
    pub block: u16,
    pub labelling: u16,
    /// [`trailtrap_shared::game::Layout::number`]: the game and the class.
    pub game: u16,
}

/// The game and the class that the store is of, which have to be those that are asked for.
pub(super) fn check_format(
    found: &StoreFormat,
    asked_game: Option<GameName>,
    asked_class: Option<Class>,
) -> Result<(GameName, Class), StoreError> {
    if found.store == REHEARSAL_FORMAT {
        return Err(StoreError::Rehearsal);
    }
    let known = GameName::on_class_of_number(found.game);
    let (game, class) = known.ok_or(StoreError::UnknownGame(found.game))?;
    let pairs = [
        ("store format", found.store, found.store.clamp(STORE_FORMAT, SHELVES_FORMAT)),
        ("block format", found.block, found.block.clamp(OLDEST_BLOCK_FORMAT, BLOCK_FORMAT)),
        ("labelling", found.labelling, LABELLING),
    ];
    match pairs.into_iter().find(|(_, found, expected)| found != expected) {
        Some((what, found, expected)) => Err(StoreError::Version { what, found, expected }),
        None => check_asked((game, class), asked_game, asked_class).map(|()| (game, class)),
    }
}

/// Whether a census of this game and class is what was asked for, as far as it was said.
///
/// # Errors
///
/// [`StoreError::OtherGame`] or [`StoreError::OtherClass`] if not.
pub fn check_asked(
    (game, class): (GameName, Class),
    asked_game: Option<GameName>,
    asked_class: Option<Class>,
) -> Result<(), StoreError> {
    match (asked_game, asked_class) {
        (Some(asked), _) if asked != game => Err(StoreError::OtherGame { found: game, asked }),
        (_, Some(asked)) if asked != class => Err(StoreError::OtherClass { found: class, asked }),
        _ => Ok(()),
    }
}
