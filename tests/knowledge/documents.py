"""Documents of every kind, small enough to be written here."""

import io
import zipfile

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


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


def pdf(text: str) -> bytes:
    stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        page,
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + table + b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(out)
