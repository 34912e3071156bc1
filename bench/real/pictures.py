"""Pillow: pictures scaled, turned, filtered, drawn on, packed and unpacked.  pictures.py ROUNDS"""
import hashlib
import io
import sys

from PIL import Image, ImageDraw, ImageFilter, ImageOps


def main(rounds):
    digest = hashlib.sha256()
    source = Image.effect_mandelbrot((900, 700), (-2, -1.2, 1, 1.2), 60).convert("RGB")
    for i in range(rounds):
        picture = ImageOps.autocontrast(source.resize((640 + i * 8, 480)).rotate(i * 3, expand=True))
        draw = ImageDraw.Draw(picture)
        for k in range(60):
            draw.ellipse((k * 9, k * 7, k * 9 + 40, k * 7 + 30), fill=(k * 4, 255 - k * 4, i % 256))
        packed = io.BytesIO()
        picture.filter(ImageFilter.GaussianBlur(3)).save(packed, "JPEG" if i % 2 else "PNG")
        tile = Image.open(io.BytesIO(packed.getvalue())).convert("L").quantize(32)
        digest.update(tile.tobytes())
        for k in range(40):
            digest.update(picture.crop((k * 9, k * 5, k * 9 + 64, k * 5 + 64)).resize((16, 16)).tobytes())
    print(digest.hexdigest())


main(int(sys.argv[1]))
