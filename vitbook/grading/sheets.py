"""The sheet of a learning platform: read it as it was saved, tell whose row is whose, fill it in, keep its form.

The number that the platform gives decides who a student is. A name counts only
where that is missing, and only if nobody shares it; where a doubt is left, the
row stays as it is and the teacher is told.
"""

import codecs
import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vitbook.grading.submissions import Submission
from vitnb._files import replacing

# As Moodle, Canvas, Brightspace, Blackboard, ILIAS, Gradescope and GitHub Classroom head their columns.
OWN = {
    "Moodle": ("identifier", "id", "identifiant", "identificador", "identificatore", "identificatie"),
    "Canvas": ("id",),
}
NUMBERS = (
    *OWN["Moodle"],
    *"sis user id;sis login id;integration id;id number;student id;student number;sid;orgdefinedid".split(";"),
    *"matrikelnummer;matrikelnr;matrikel-nr;numéro d'identification;numéro d’identification;numéro étudiant".split(";"),
    *"n° étudiant;número de id;número de identificación;matrícula;numero di matricola;matricola;kennung".split(";"),
    *"username;user name;login;benutzername;anmeldename;nutzername;nom d'utilisateur;nom d’utilisateur".split(";"),
    *"identifiant de connexion;nombre de usuario;usuario;nome utente;gebruikersnaam;anonymous id".split(";"),
    *"email address;email;e-mail;e-mail-adresse;adresse de courriel;adresse e-mail;dirección de correo".split(";"),
    *"dirección email;correo electrónico;student_repository_name;github_username;roster_identifier".split(";"),
)
NAMES = (
    *"full name;fullname;student;student name;name;vollständiger name;teilnehmer/in;nom complet;étudiant".split(";"),
    *"nombre completo;nombre y apellidos;estudiante;alumno;nome completo;studente;volledige naam".split(";"),
)
FIRST = "first name;firstname;given name;vorname;prénom;prénom(s);nombre;nombre(s);nome;voornaam".split(";")
LAST = "last name;lastname;surname;family name;nachname;nom;nom de famille;apellido(s);apellidos;apellido".split(";")
POINTS = ("Grade", "Bewertung", "Note", "Calificación", "Valutazione", "Voto", "Cijfer")  # where --column is not given
MAXIMA = ("maximum grade", "bestwertung", "note maximale", "calificación máxima", "valutazione massima")
COMMENTS = (
    *("feedback comments", "feedback als kommentar", "feedback par commentaires"),
    *("comentarios de retroalimentación", "comentarios de realimentación", "commenti"),
)
NO_STUDENTS = ("", "points possible", "student, test", "test student")  # rows of Canvas
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
AFTER = re.compile(r"([;\t|\r\n]\s*|,(?=[=@＝＠+\-])|,\s+(?=[=@＝＠]))(?=[=+\-@＝＋－＠])")
NUMBER = re.compile(r"[+-]?\d*[.,]?\d+ ?%?|-")
DECIMAL_COMMA, DECIMAL_POINT = re.compile(r"\d+,\d+"), re.compile(r"\d+\.\d+")
BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
WORKBOOKS = {b"PK\x03\x04": "an Excel or LibreOffice workbook", b"\xd0\xcf\x11\xe0": "an Excel workbook"}


def cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula, wherever its country's separator may cut it."""
    text = AFTER.sub(r"\1'", text)
    return f"'{text}" if unicodedata.normalize("NFKC", text[:1]) in FORMULA else text


def plain(text: str) -> str:
    """A text as it was before `cell` made it none of a formula."""
    return text[1:] if text.startswith("'") and text[1:2] in FORMULA else text


def folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def number(text: str, moodle: bool = False) -> str:
    """A number or a login as it is compared: Brightspace's # and Excel's lost zeros do not count.

    Moodle writes Participant 1002, in other languages Teilnehmer/in1002.
    """
    text = folded(text).lstrip("#")
    if moodle and (met := re.fullmatch(r"[^\d]{5,}?(\d+)", text)):  # a word, not the letter of s123
        text = met[1]
    return (text.lstrip("0") or "0") if text.isdecimal() else text


def forms(name: str) -> set[str]:
    """A name as it is compared: in any order of its parts, run together as Canvas does, without accents as ILIAS."""
    name = folded(name)
    plain = "".join(one for one in unicodedata.normalize("NFKD", name) if not unicodedata.combining(one))
    german = name.translate({ord(one): two for one, two in zip("äöüß", ("ae", "oe", "ue", "ss"), strict=True)})
    found = set()
    for one in (name, plain, german):
        found |= {" ".join(sorted(re.findall(r"[^\s,;_]+", one))), re.sub(r"\W", "", one)}
    return found - {""}


@dataclass
class Sheet:
    """A platform's sheet, as it was saved."""

    path: Path
    rows: list[list[str]]
    first: int  # the row with the heads
    column: int
    encoding: str
    bom: bytes
    delimiter: str
    ending: str
    opening: str = ""  # Excel's line sep=;
    key: int | None = None  # the column that the teacher has named as telling who is who
    unclear: dict[int, str] = field(default_factory=dict)  # a submission's index -> why it got no row
    doubtful: set[int] = field(default_factory=set)  # rows of which it is unclear whose they are

    @property
    def head(self) -> list[str]:
        return [folded(one).strip(".:") for one in self.rows[self.first]]

    def columns(self, names: Iterable[str]) -> list[int]:
        """The columns with these heads, in the order of the names."""
        head = self.head
        return [head.index(name) for name in names if name in head]

    def students(self) -> list[int]:
        """The rows of students."""
        who = [*self.columns(NUMBERS), *self.columns((*NAMES, *FIRST, *LAST))]
        who = who if self.key is None else [self.key, *who]
        found = []
        for n, row in enumerate(self.rows[self.first + 1 :], self.first + 1):
            said = {folded(row[key]) for key in who if key < len(row)}
            if any(said) and not said & set(NO_STUDENTS[1:]):
                found.append(n)
        return found

    def value(self, row: int, column: int) -> str:
        return self.rows[row][column] if column < len(self.rows[row]) else ""

    def name(self, row: int) -> str:
        """Whose row it is, in words; where there are no words, by a number."""
        if self.key is not None:
            return self.value(row, self.key)
        first, last = self.columns(FIRST)[:1], self.columns((*LAST, "name"))[:1]
        whole = self.columns(one for one in NAMES if one != "name" or not first)
        parts = " ".join(filter(None, (self.value(row, key) for key in (*first, *last))))
        said = [
            *(self.value(row, key) for key in whole),
            parts,
            *(self.value(row, key) for key in self.columns(NUMBERS)),
        ]
        return next(filter(None, said), "")

    def matched(self, submissions: Sequence[Submission]) -> dict[int, int]:
        """Submission -> row, where there is no doubt; `unclear` says of the others why there is."""
        students = self.students()
        platforms = {one.platform for one in submissions}
        columns = {platform: self._column(platform, submissions) for platform in platforms}
        names = {row: forms(self.name(row)) for row in students}
        claims: dict[int, set[int]] = {}
        for n, one in enumerate(submissions):
            numbers, strict = columns[one.platform]
            claims[n] = {row for row, said in numbers.items() if said in ids(one)}
            if not numbers and not strict or not (one.platform or one.numbered):
                said = {form for name in (one.student, *one.also) for form in forms(name)}
                claims[n] |= {row for row in students if said & names[row]}
        return self._sure(claims)

    def _column(self, platform: str, submissions: Sequence[Submission]) -> tuple[dict[int, str], bool]:
        """The numbers by which the rows are known, and whether there must be one: then no name counts.

        One platform's numbers are never compared with another's: there they are somebody else's.
        """
        own = self.columns(OWN.get(platform, ())) if self.key is None else []
        others = self.columns(one for one in NUMBERS if not platform or one not in OWN["Moodle"])
        candidates = [self.key] if self.key is not None else own[:1] if platform in OWN else others
        known = [ids(one) for one in submissions if one.platform == platform]
        best, most = {}, 0
        for column in candidates:
            moodle = column in self.columns(OWN["Moodle"])
            numbers = {row: number(self.value(row, column), moodle) for row in self.students()}
            there = set(numbers.values()) - {""}
            met = sum(bool(there & one) for one in known)
            if met > most:
                best, most = numbers, met
        return best, self.key is None and bool(own or (others and not platform))

    def _sure(self, claims: dict[int, set[int]]) -> dict[int, int]:
        claimed = [row for rows in claims.values() for row in rows]
        sure = {}
        for n, rows in claims.items():
            if len(rows) > 1:
                self.unclear[n] = f"the sheet has {len(rows)} rows that may be meant: {self._listed(rows)}"
            elif rows and claimed.count(*rows) > 1:
                self.unclear[n] = f"several submissions may belong to one row of the sheet: {self._listed(rows)}"
            elif rows:
                sure[n] = next(iter(rows))
        self.doubtful = {row for n in self.unclear for row in claims[n]}
        return sure

    def _listed(self, rows: Iterable[int]) -> str:
        return ", ".join(f"{self.name(row)} (line {row + 1})" for row in sorted(rows)[:5])

    def fill(self, row: int, points: float, comment: str, overwrite: bool = False) -> str:
        """Write one student's points, with the sheet's own decimal sign, and the comment where it has a column.

        Returns the other points that stand there already: without `overwrite`, they stay.
        """
        older = self.value(row, self.column).strip()
        if not overwrite and older not in ("", "-") and amount(older) != round(points, 5):
            return older
        line = self.rows[row]
        comments = self.columns(COMMENTS)[:1]
        line += [""] * (max([self.column, *comments]) + 1 - len(line))
        line[self.column] = f"{points:g}".replace(".", "," if self._comma() else ".")
        for column in comments:
            line[column] = comment
        return ""

    def maximum(self) -> float | None:
        """The most points that the platform gives for it, if the sheet says so: in a column, or in a row of Canvas."""
        said = [self.value(row, column) for column in self.columns(MAXIMA) for row in self.students()[:1]]
        said += [row[self.column] for row in self.rows[self.first + 1 :] if folded("".join(row[:1])) == NO_STUDENTS[1]]
        return amount(said[0]) if said else None

    def _comma(self) -> bool:
        cells = [one.strip() for row in self.rows[self.first + 1 :] for one in row]
        return any(map(DECIMAL_COMMA.fullmatch, cells)) and not any(map(DECIMAL_POINT.fullmatch, cells))

    def write(self, path: Path) -> None:
        """Write it as it was saved; what a student may have chosen, a name for example, is no formula in it."""
        text = io.StringIO()
        writer = csv.writer(text, delimiter=self.delimiter, lineterminator=self.ending)
        head = self.rows[: self.first + 1]
        writer.writerows(head)
        writer.writerows(
            [one if NUMBER.fullmatch(one.strip()) else cell(one) for one in row] for row in self.rows[len(head) :]
        )
        with replacing(path) as part:
            part.write_bytes(self.bom + (self.opening + text.getvalue()).encode(self.encoding, "replace"))


def amount(text: str) -> float | None:
    """The number in a cell, with either decimal sign; None if there is none."""
    try:
        return float(text.strip(" %").replace(",", "."))
    except ValueError:
        return None


def ids(one: Submission) -> set[str]:
    """The numbers and logins of a submission that may stand in a sheet."""
    said = one.also if one.platform in ("Brightspace", "ILIAS") else (one.identifier, *one.also)
    return {number(text) for text in said} - {""}


def read(path: Path, column: str | None, key: str | None = None) -> Sheet:
    """Read a sheet.

    Raises: ValueError if it is no such table, has no such column (without one:
        none of POINTS), or none that says who is who.
    """
    text, encoding, bom = _decoded(path)
    rows, delimiter, opening = _rows(text, path)
    ending = "\n" if re.match(r"[^\r\n]*\n", text.removeprefix(opening)) else "\r\n"
    heads = [column] if column is not None else list(POINTS)
    first = next((n for n, row in enumerate(rows[:10]) if _places(row, heads)), None)
    if first is None:
        head = next(filter(any, rows), [])
        raise ValueError(f"{path} has no column {heads[0]!r}: name one of {head} by --column")
    places = _places(rows[first], heads)
    if len(places) > 1:
        raise ValueError(f"{path} has {len(places)} columns {heads[0]!r}: rename the one to be filled in")
    sheet = Sheet(path, rows, first, places[0], encoding, bom, delimiter, ending, opening)
    if key is not None:
        named = _places(rows[first], [key])
        if len(named) != 1:
            raise ValueError(f"{path} has {len(named)} columns {key!r}: name one of {rows[first]} by --id-column")
        sheet.key = named[0]
    elif not sheet.columns((*NUMBERS, *NAMES, *FIRST, *LAST)):
        raise ValueError(f"{path} says in none of its columns who is who: name one of {rows[first]} by --id-column")
    return sheet


def table(path: Path, heads: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """The lines of a small table with these heads, as any spreadsheet saves it, each with its number.

    Raises: ValueError if it has others.
    """
    rows, _, _ = _rows(_decoded(path)[0], path)
    places = {head: _places(rows[0] if rows else [], [head]) for head in heads}
    for head, found in places.items():
        if len(found) != 1:
            said = f"{path} has {len(found)} columns {head!r} in {rows[0] if rows else []}"
            raise ValueError(f"{said}: its first line must be {','.join(heads)}")
    return [
        (n, {head: plain(row[at] if at < len(row) else "").strip() for head, [at] in places.items()})
        for n, row in enumerate(rows[1:], 2)
        if any(map(str.strip, row))
    ]


def _rows(text: str, path: Path) -> tuple[list[list[str]], str, str]:
    """The rows of a table, what stands between its cells, and Excel's line sep=; above it."""
    opening = next(iter(re.findall(r"\A\"?sep=.\"?\r?\n", text, re.IGNORECASE)), "")
    text = text.removeprefix(opening)
    try:
        delimiter = opening.strip('"\r\n')[-1:] or _delimiter(text)
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)), delimiter, opening
    except csv.Error as error:
        raise ValueError(f"{path} is no table that can be read ({error}): export it again as CSV") from None


def _places(row: list[str], names: list[str]) -> list[int]:
    """Where in a row the first of these heads that it has stands; Canvas and Blackboard add a number to it."""
    heads = [folded(one) for one in row]
    for name in map(folded, names):
        exact = [n for n, head in enumerate(heads) if head == name]
        more = [n for n, head in enumerate(heads) if re.fullmatch(re.escape(name) + r" [(\[|].*", head)]
        if exact or more:
            return exact or more
    return []


def _decoded(path: Path) -> tuple[str, str, bytes]:
    """A sheet's text, its encoding and its byte order mark."""
    content = path.read_bytes()
    for beginning, kind in WORKBOOKS.items():
        if content.startswith(beginning):
            raise ValueError(f"{path} is {kind}: save it as CSV")
    for bom, encoding in BOMS.items():
        if content.startswith(bom):
            return content[len(bom) :].decode(encoding, "replace"), encoding, bom
    if b"\0" in content[:200]:
        encoding = "utf-16-le" if content[1:2] == b"\0" else "utf-16-be"
        return content.decode(encoding, "replace"), encoding, b""
    for encoding in ("utf-8", "cp1252"):
        try:
            return content.decode(encoding), encoding, b""
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1"), "latin-1", b""


def _delimiter(text: str) -> str:
    """What stands between the cells: of the usual signs, that which cuts the first line into the most."""
    line = next(filter(str.strip, text.splitlines()), "")
    return max(",;\t|", key=lambda sign: len(next(csv.reader([line], delimiter=sign), [])))
