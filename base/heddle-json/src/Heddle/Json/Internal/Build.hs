{-# LANGUAGE DataKinds #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE KindSignatures #-}
{-# LANGUAGE RoleAnnotations #-}

-- |
-- Module      : Heddle.Json.Internal.Build
-- Description : Encoders of JSON values
-- Stability   : internal; exempt from the version policy
--
-- The representation behind "Heddle.Json.Build". A value is told whether another one precedes it,
-- writes the comma together with its first piece, and returns whether one precedes its successor.
-- So commas are right however values are joined.
--
-- Invariant: a 'Build' of 'One' writes one JSON value, and a comma before it if told so. One of
-- 'Many', and 'Fields', write any number of values with commas between them.
-- Cost: a comparison for each piece; no allocation where the pieces are known.
-- Owner: values, which may be run again.
module Heddle.Json.Internal.Build
  ( -- * Values
    Card (..),
    Build (..),
    Steps,
    Before (..),
    piece,
    steps,
    retyped,

    -- * Objects
    Fields (..),
    Name (..),
    nameText,
    nameString,
    putField,

    -- * Fixed bytes
    Fixed,
    fixed,
    putFixed,

    -- * Punctuation
    open,
    close,
    separate,
    putting,
    room,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Unsafe qualified as ByteString (unsafeIndex)
import Data.Primitive.ByteArray (ByteArray, byteArrayFromListN, indexByteArray)
import Data.String (IsString (..))
import Data.Text (Text)
import Data.Word (Word64, Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (poke, pokeByteOff)
import Heddle.Bytes.Put (toByteString)
import Heddle.Bytes.Put.Sink (Put, Sink, runningPut)
import Heddle.Bytes.TextArray (textArray)
import Heddle.Json.Internal.Escape
import Heddle.Prim.AddrState (AddrState, At (..), addrState, runAddrState)
import Heddle.Prim.Literal (FromLiteral (..), inOnePiece, literal)

-- | The writer without its result, as a 'Put'.
putting :: AddrState Sink a -> Put
putting f = runningPut $ \sink p -> do
  At end _ <- runAddrState f sink p
  pure end
{-# INLINE putting #-}

-- | How many values: exactly one, or any number.
data Card
  = -- | Exactly one.
    One
  | -- | Any number, including none.
    Many

-- | Whether something precedes in the same array or object.
data Before
  = -- | Nothing.
    First
  | -- | Something, so that a comma is needed.
    Next

-- | Writes values. The argument says whether a value precedes them, the result whether one
-- precedes what follows.
type Steps = Before -> AddrState Sink Before

-- | JSON values; @c@ is their number, @a@ their kind.
newtype Build (c :: Card) a = Build Steps

type role Build nominal representational

-- | Writes one after the other, with a comma if neither is empty.
instance Semigroup (Build 'Many a) where
  Build f <> Build g = Build (\before -> f before >>= g)
  {-# INLINE (<>) #-}

instance Monoid (Build 'Many a) where
  mempty = Build pure
  {-# INLINE mempty #-}

-- | The same values under another kind.
retyped :: Build c a -> Build d b
retyped (Build f) = Build f
{-# INLINE retyped #-}

-- | A value that one bounded primitive writes.
--
-- [Units]: the bound is in bytes.
piece :: Int -> (Ptr Word8 -> IO (Ptr Word8)) -> Steps
piece bound f before = addrState $ \sink p -> do
  end <- room sink (bound + 1) p >>= separate before >>= f
  pure (At end Next)
{-# INLINE piece #-}

-- | A value whose writer checks for room itself.
steps :: AddrState Sink () -> Steps
steps f before = comma before *> (Next <$ f)
{-# INLINE steps #-}

comma :: Before -> AddrState Sink ()
comma = \case
  First -> pure ()
  Next -> addrState $ \sink p0 -> do
    p <- room sink 1 p0
    poke p 0x2c
    pure (At (p `plusPtr` 1) ())
{-# INLINE comma #-}

-- | Write the comma if one is needed. The caller has made room for it.
separate :: Before -> Ptr Word8 -> IO (Ptr Word8)
separate before p = case before of
  First -> pure p
  Next -> do
    poke p 0x2c
    pure (p `plusPtr` 1)
{-# INLINE separate #-}

-- | Write an opening bracket, with a comma before it if one is needed.
open :: Word8 -> Before -> AddrState Sink ()
open bracket before = addrState $ \sink p0 -> do
  p <- room sink 2 p0 >>= separate before
  poke p bracket
  pure (At (p `plusPtr` 1) ())
{-# INLINE open #-}

-- | Write a closing bracket.
close :: Word8 -> AddrState Sink Before
close bracket = addrState $ \sink p0 -> do
  p <- room sink 1 p0
  poke p bracket
  pure (At (p `plusPtr` 1) Next)
{-# INLINE close #-}

-- | The pairs of an object: any number of them.
newtype Fields = Fields Steps

-- | Writes one after the other, with a comma if neither is empty.
instance Semigroup Fields where
  Fields f <> Fields g = Fields (\before -> f before >>= g)
  {-# INLINE (<>) #-}

instance Monoid Fields where
  mempty = Fields pure
  {-# INLINE mempty #-}

-- | The key of a pair.
data Name
  = -- | Quoted, escaped and with its colon.
    FixedName !Fixed
  | -- | Written when it is needed, with quotes, without the colon.
    WrittenName (AddrState Sink ())

-- | A literal is escaped once; all that is compiled for it is a call with its bytes.
instance IsString Name where
  fromString = literal
  {-# INLINE fromString #-}

instance FromLiteral Name where
  fromAscii = literalName
  fromModifiedUtf8 = literalName
  fromCharacters = nameString

-- | A name that is escaped once, for many uses.
--
-- [Cost]: that of the string, once; then a piece.
nameString :: String -> Name
nameString text = FixedName (fixed (toByteString (putting (putChars text)) <> colon))

-- | The name of a literal of the compiler's.
literalName :: Ptr Word8 -> Name
literalName address = inOnePiece (FixedName (fixed (toByteString (putting (putUtf8 bytes)) <> colon)))
  where
    -- GHC encodes NUL as two bytes and surrogates as three; write NUL as one byte, each surrogate as U+FFFD.
    bytes = toByteString (fromModifiedUtf8 address)
{-# NOINLINE literalName #-}

-- | A name that is escaped whenever it is written.
--
-- [Cost]: a string's.
nameText :: Text -> Name
nameText text = case textArray text of (array, offset, len) -> WrittenName (putUnits array offset len)
{-# INLINE nameText #-}

colon :: ByteString
colon = ByteString.singleton 0x3a
{-# NOINLINE colon #-}

-- | Constant bytes: their number, and the bytes padded to whole words, so that words can be copied.
data Fixed = Fixed !Int !ByteArray

-- | Pad these bytes for copying.
--
-- [Cost]: linear, once.
fixed :: ByteString -> Fixed
fixed text = Fixed len (byteArrayFromListN (8 * wordsOf len) padded)
  where
    len = ByteString.length text
    padded = [if i < len then ByteString.unsafeIndex text i else 0 | i <- [0 .. 8 * wordsOf len - 1]]

-- | Write constant bytes, with a comma before them if one is needed. Not inlined: that would be more than a kilobyte of
-- code for each key of a program.
--
-- [Cost]: a piece.
putFixed :: Fixed -> Before -> AddrState Sink ()
putFixed (Fixed len array) before = addrState $ \sink p0 -> do
  p <- room sink (len + 8) p0 >>= separate before
  copyWords array len p
  pure (At (p `plusPtr` len) ())
{-# NOINLINE putFixed #-}

wordsOf :: Int -> Int
wordsOf len = (len + 7) `quot` 8

-- | Copy the words that hold this many bytes of an array.
--
-- [Units]: bytes; up to 7 more are written.
copyWords :: ByteArray -> Int -> Ptr Word8 -> IO ()
copyWords array len p = go 0
  where
    go :: Int -> IO ()
    go i
      | i >= len = pure ()
      | otherwise = do
        pokeByteOff p i (indexByteArray array (i `quot` 8) :: Word64)
        go (i + 8)
{-# INLINE copyWords #-}

-- | Write a key with its colon, and a comma before it if one is needed.
putName :: Name -> Before -> AddrState Sink ()
putName name before = case name of
  FixedName bytes -> putFixed bytes before
  WrittenName f -> do
    comma before
    f
    addrState $ \sink p0 -> do
      p <- room sink 1 p0
      poke p 0x3a
      pure (At (p `plusPtr` 1) ())
{-# NOINLINE putName #-}

-- | A pair.
putField :: Name -> Steps -> Steps
putField name value before = putName name before *> value First
{-# INLINE putField #-}
