//! Units of DWARF and the entries in them: what an entry says, and where its references lead.

use super::sections::Slice;
use gimli::{AttributeValue, DebuggingInformationEntry, DwAt, Dwarf, Unit, UnitHeader, UnitOffset};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// An entry as it is read.
pub(super) type Entry<'d> = DebuggingInformationEntry<Slice<'d>>;

/// All compilation units of one file, each read once.
pub(super) struct Units<'d> {
    pub(super) dwarf: Dwarf<Slice<'d>>,
    /// The headers, by where they begin.
    headers: Vec<(usize, UnitHeader<Slice<'d>>)>,
    read: RefCell<HashMap<usize, Option<Rc<Unit<Slice<'d>>>>>>,
    /// Types in a section of their own, by their signatures.
    signed: RefCell<HashMap<u64, Option<Located<'d>>>>,
}

/// An entry's unit and its place in it.
type Located<'d> = (Rc<Unit<Slice<'d>>>, UnitOffset);

/// Units of one file are at most so many: those behind are not seen.
const MAX_UNITS: usize = 1 << 18;

impl<'d> Units<'d> {
    pub(super) fn new(dwarf: Dwarf<Slice<'d>>) -> Rc<Self> {
        let mut headers = Vec::new();
        let mut all = dwarf.units();
        while let Ok(Some(header)) = all.next() {
            if let Some(begin) = header.debug_info_offset() {
                headers.push((begin.0, header));
            }
            if headers.len() >= MAX_UNITS {
                break;
            }
        }
        Rc::new(Self {
            dwarf,
            headers,
            read: RefCell::default(),
            signed: RefCell::default(),
        })
    }

    /// The entry of the unit with this number in a split file; addresses in it are those of the unit that names it.
    pub(super) fn split(
        dwarf: Dwarf<Slice<'d>>,
        id: gimli::DwoId,
        skeleton: &Unit<Slice<'d>>,
    ) -> Option<Die<'d>> {
        let units = Self::new(dwarf);
        for (begin, header) in &units.headers {
            let Ok(mut unit) = units.dwarf.unit(*header) else {
                continue;
            };
            if unit.dwo_id != Some(id) {
                continue;
            }
            unit.copy_relocated_attributes(skeleton);
            let unit = Rc::new(unit);
            units.read.borrow_mut().insert(*begin, Some(unit.clone()));
            let offset = unit.header.root_offset();
            return Some(Die {
                units: units.clone(),
                unit,
                offset,
            });
        }
        None
    }

    /// Offsets at which units begin.
    pub(super) fn begins(&self) -> impl Iterator<Item = usize> + '_ {
        self.headers.iter().map(|(begin, _)| *begin)
    }

    /// The unit that begins there.
    pub(super) fn unit(&self, begin: usize) -> Option<Rc<Unit<Slice<'d>>>> {
        if let Some(known) = self.read.borrow().get(&begin) {
            return known.clone();
        }
        let place = self.headers.binary_search_by_key(&begin, |(begin, _)| *begin);
        let header = place.ok().and_then(|place| self.headers.get(place));
        let unit = header.and_then(|(_, header)| self.dwarf.unit(*header).ok());
        let unit = unit.map(Rc::new);
        self.read.borrow_mut().insert(begin, unit.clone());
        unit
    }

    /// The unit that has code at an address.
    pub(super) fn holding(&self, address: u64) -> Option<usize> {
        self.listed(address).or_else(|| {
            self.begins().find(|begin| {
                let Some(unit) = self.unit(*begin) else {
                    return false;
                };
                let Ok(mut ranges) = self.dwarf.unit_ranges(&unit) else {
                    return false;
                };
                while let Ok(Some(range)) = ranges.next() {
                    if (range.begin..range.end).contains(&address) {
                        return true;
                    }
                }
                false
            })
        })
    }

    /// The unit of an address by the table of addresses (`.debug_aranges`), where there is one.
    fn listed(&self, address: u64) -> Option<usize> {
        let mut tables = self.dwarf.debug_aranges.headers();
        while let Ok(Some(table)) = tables.next() {
            let mut entries = table.entries();
            while let Ok(Some(entry)) = entries.next() {
                let behind = address.checked_sub(entry.address());
                if behind.is_some_and(|behind| behind < entry.length()) {
                    return Some(table.debug_info_offset().0);
                }
            }
        }
        None
    }

    /// The unit in which a byte of the section lies.
    fn around(&self, offset: usize) -> Option<Located<'d>> {
        let behind = self.headers.partition_point(|(begin, _)| *begin <= offset);
        let (begin, _) = self.headers.get(behind.checked_sub(1)?)?;
        let unit = self.unit(*begin)?;
        Some((unit, UnitOffset(offset - begin)))
    }

    /// A type by its signature.
    fn signed(&self, signature: gimli::DebugTypeSignature) -> Option<Located<'d>> {
        let place = |header: &UnitHeader<Slice<'d>>| match header.type_() {
            gimli::UnitType::Type {
                type_signature,
                type_offset,
            }
            | gimli::UnitType::SplitType {
                type_signature,
                type_offset,
            } if type_signature == signature => Some(type_offset),
            _ => None,
        };
        let here = self.headers.iter().find_map(|(begin, header)| {
            let offset = place(header)?;
            Some((self.unit(*begin)?, offset))
        });
        here.or_else(|| {
            if let Some(known) = self.signed.borrow().get(&signature.0) {
                return known.clone();
            }
            // Before DWARF 5 they have a section of their own.
            let mut found = None;
            let mut all = self.dwarf.type_units();
            while let Ok(Some(header)) = all.next() {
                if let Some(offset) = place(&header) {
                    let unit = self.dwarf.unit(header).ok();
                    found = unit.map(|unit| (Rc::new(unit), offset));
                    break;
                }
            }
            self.signed.borrow_mut().insert(signature.0, found.clone());
            found
        })
    }
}

/// An entry by its place.
#[derive(Clone)]
pub(super) struct Die<'d> {
    pub(super) units: Rc<Units<'d>>,
    pub(super) unit: Rc<Unit<Slice<'d>>>,
    pub(super) offset: UnitOffset,
}

impl<'d> Die<'d> {
    /// Key of the entry, different from all others: its file's, its unit's and its own place.
    pub(super) fn key(&self) -> (usize, usize, usize) {
        let file = Rc::as_ptr(&self.units).addr();
        let unit = Rc::as_ptr(&self.unit).addr();
        (file, unit, self.offset.0)
    }

    pub(super) fn entry(&self) -> Option<Entry<'d>> {
        self.unit.entry(self.offset).ok()
    }

    /// The entry at another offset of the same unit.
    pub(super) fn beside(&self, offset: UnitOffset) -> Self {
        Self {
            offset,
            ..self.clone()
        }
    }

    /// The entry that one of its values refers to.
    pub(super) fn follow(&self, entry: &Entry<'d>, name: DwAt) -> Option<Self> {
        let (unit, offset) = match entry.attr_value(name)? {
            AttributeValue::UnitRef(offset) => return Some(self.beside(offset)),
            AttributeValue::DebugInfoRef(offset) => self.units.around(offset.0)?,
            AttributeValue::DebugTypesRef(signature) => self.units.signed(signature)?,
            _ => return None,
        };
        Some(Self {
            units: self.units.clone(),
            unit,
            offset,
        })
    }

    /// A value that may stand with the entry that it was made of: its declaration, or the function of which it is a copy.
    pub(super) fn inherited<T>(&self, of: &dyn Fn(&Self, &Entry<'d>) -> Option<T>) -> Option<T> {
        let mut here = self.clone();
        for _ in 0..8 {
            let entry = here.entry()?;
            if let Some(found) = of(&here, &entry) {
                return Some(found);
            }
            here = here
                .follow(&entry, gimli::DW_AT_abstract_origin)
                .or_else(|| here.follow(&entry, gimli::DW_AT_specification))?;
        }
        None
    }

    /// The text of one of its values.
    pub(super) fn text(&self, entry: &Entry<'d>, name: DwAt) -> Option<String> {
        let value = entry.attr_value(name)?;
        let text = self.units.dwarf.attr_string(&self.unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    pub(super) fn name(&self) -> Option<String> {
        self.inherited(&|die, entry| die.text(entry, gimli::DW_AT_name))
    }

    /// The entry of its type.
    pub(super) fn ty(&self) -> Option<Self> {
        self.inherited(&|die, entry| die.follow(entry, gimli::DW_AT_type))
    }

    /// The entries right below it.
    pub(super) fn children(&self) -> Vec<Entry<'d>> {
        let mut found = Vec::new();
        let Ok(mut cursor) = self.unit.entries_at_offset(self.offset) else {
            return found;
        };
        let Ok(Some(own)) = cursor.next_dfs() else {
            return found;
        };
        if !own.has_children() {
            return found;
        }
        if !matches!(cursor.next_entry(), Ok(true)) {
            return found;
        }
        while let Some(child) = cursor.current() {
            found.push(child.clone());
            if !matches!(cursor.next_sibling(), Ok(Some(_))) {
                break;
            }
        }
        found
    }
}

/// A constant of the program, with its sign where the compiler says that it has one.
pub(super) fn constant(entry: &Entry<'_>, name: DwAt) -> Option<i64> {
    Some(match entry.attr_value(name)? {
        AttributeValue::Sdata(value) => value,
        AttributeValue::Data1(value) => value.into(),
        AttributeValue::Data2(value) => value.into(),
        AttributeValue::Data4(value) => value.into(),
        AttributeValue::Data8(value) | AttributeValue::Udata(value) => value as i64,
        _ => return None,
    })
}

/// A number that an entry says outright.
pub(super) fn number(entry: &Entry<'_>, name: DwAt) -> Option<u64> {
    entry.attr(name)?.udata_value()
}

/// Whether an entry says this of itself.
pub(super) fn flag(entry: &Entry<'_>, name: DwAt) -> bool {
    matches!(entry.attr_value(name), Some(AttributeValue::Flag(true)))
}
