"""What a Blob is made of: `core`, and classes with the methods of one subject each.

Functions beside them take the Blob first. The class itself is in `syncblob._blob`.
"""
