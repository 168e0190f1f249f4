"""What a Blob is made of; the class itself, with every public name, is in `syncblob._blob`.

`core` has the fields and the methods that the other modules use. `operators` is a mixin. The other
modules contain functions whose first argument is a Blob.
"""
