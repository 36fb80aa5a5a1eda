"""Documents of every kind, small enough to be written here."""

import io
import zipfile

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def zipped(**members: bytes | str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name.replace("__", "/"), body)
    return out.getvalue()


def docx(*paragraphs: tuple[str, str]) -> bytes:
    """Returns a text with paragraphs, each with its style."""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>' for style, text in paragraphs
    )
    return zipped(**{"word__document.xml": f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'})


def docx_of(body: str) -> bytes:
    """Returns a text with this body, in which `w:` is the namespace of Word and `mc:` that of alternatives."""
    names = f'xmlns:w="{W}" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    return zipped(**{"word__document.xml": f"<w:document {names}><w:body>{body}</w:body></w:document>"})


def relations(**targets: str) -> str:
    """Returns the members that the parts of a document refer to, by their ids."""
    entries = "".join(f'<Relationship Id="{name}" Target="{target}"/>' for name, target in targets.items())
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{entries}</Relationships>'


def workbook(sheets: dict[str, str], targets: dict[str, str], styles: str = "", strings: str = "", about: str = "") -> bytes:
    """Returns a workbook: the names of its sheets with their ids, in order; and the rows of each id's sheet."""
    entries = "".join(f'<sheet name="{name}" r:id="{ref}"/>' for name, ref in sheets.items())
    names = f'xmlns="{S}" xmlns:r="{RELATIONS}"'
    files = {ref: f"worksheets/sheet{number}.xml" for number, ref in enumerate(targets, 1)}
    return zipped(**{
        "xl__workbook.xml": f"<workbook {names}>{about}<sheets>{entries}</sheets></workbook>",
        "xl___rels__workbook.xml.rels": relations(**files),
        "xl__styles.xml": f'<styleSheet xmlns="{S}">{styles}</styleSheet>',
        "xl__sharedStrings.xml": f'<sst xmlns="{S}">{strings}</sst>',
        **{
            f"xl__{files[ref]}": f'<worksheet xmlns="{S}"><sheetData>{rows}</sheetData></worksheet>'
            for ref, rows in targets.items()
        },
    })  # fmt: skip


def reordered_pptx(**slides: str) -> bytes:
    """Returns slides in their order, each with the name of its member."""
    refs = {f"r{place}": f"slides/{name}.xml" for place, name in enumerate(slides)}
    shown = "".join(f'<p:sldId r:id="{ref}"/>' for ref in refs)
    names = f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:r="{RELATIONS}"'
    return zipped(**{
        "ppt__presentation.xml": f"<p:presentation {names}><p:sldIdLst>{shown}</p:sldIdLst></p:presentation>",
        "ppt___rels__presentation.xml.rels": relations(**refs),
        **{
            f"ppt__slides__{name}.xml": f'<p xmlns:a="{A}"><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p>'
            for name, text in slides.items()
        },
    })  # fmt: skip


def pptx(*slides: str) -> bytes:
    return zipped(**{
        f"ppt__slides__slide{number}.xml": f'<p xmlns:a="{A}"><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p>'
        for number, text in enumerate(slides, 1)
    })  # fmt: skip


def xlsx(*rows: tuple[str, ...]) -> bytes:
    strings = [cell for row in rows for cell in row]
    shared = "".join(f"<si><t>{text}</t></si>" for text in strings)
    numbers = iter(range(len(strings)))
    cells = ["".join(f'<c t="s"><v>{next(numbers)}</v></c>' for _ in row) for row in rows]
    sheet = "".join(f"<row>{row}</row>" for row in cells)
    return zipped(**{
        "xl__workbook.xml": f'<workbook xmlns="{S}"><sheets><sheet name="Prices"/></sheets></workbook>',
        "xl__sharedStrings.xml": f'<sst xmlns="{S}">{shared}</sst>',
        "xl__worksheets__sheet1.xml": f'<worksheet xmlns="{S}"><sheetData>{sheet}</sheetData></worksheet>',
    })  # fmt: skip


PAGE = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>"


def pdf(text: str) -> bytes:
    """Returns a document of one page with this text in ASCII."""
    return _pdf(stream(f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET"), b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")


def chinese_pdf(text: str) -> bytes:
    """Returns a document of one page whose glyphs are numbers of a font, and that says which character each is."""
    glyphs = "".join(f"{number:04X}" for number, _ in enumerate(text, 1))
    named = "".join(f"<{number:04X}> <{letter.encode('utf-16-be').hex()}>\n" for number, letter in enumerate(text, 1))
    characters = f"1 begincodespacerange <0000> <FFFF> endcodespacerange\n{len(text)} beginbfchar\n{named}endbfchar"
    return _pdf(
        stream(f"BT /F1 24 Tf 72 700 Td <{glyphs}> Tj ET"),
        b"<< /Type /Font /Subtype /Type0 /BaseFont /Song /Encoding /Identity-H /DescendantFonts [6 0 R] /ToUnicode 7 0 R >>",
        b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Song /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) "
        b"/Supplement 0 >> /DW 1000 >>",
        stream(f"/CIDInit /ProcSet findresource begin begincmap\n{characters}\nendcmap end"),
    )


def stream(text: str) -> bytes:
    return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text.encode())


def _pdf(*objects: bytes) -> bytes:
    objects = (b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>", PAGE, *objects)
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    size = len(objects) + 1
    table = b"xref\n0 %d\n0000000000 65535 f \n" % size + b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + table + b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (size, len(out))
