-- |
-- Module      : Heddle.Testkit.Utf8
-- Description : Generators of valid UTF-8, and of UTF-8 that is ill-formed at a known offset
-- Stability   : internal: for this repository's tests
--
-- Random bytes rarely reach a decoder's interesting branches. These generators make every kind of
-- ill-formed sequence and put it alone, at the start, at the end or at any offset of valid text. Each
-- document says at which offset a decoder must stop and how many bytes one U+FFFD replaces there.
--
-- Invariant: a document of 'invalidDocument' is never valid, and valid up to the offset that it says.
-- Cost: that of QuickCheck.
-- Owner: values.
module Heddle.Testkit.Utf8
  ( -- * Valid text
    character,
    characterOf,
    boundaries,
    validText,
    validBytes,

    -- * Text that is ill-formed at a known offset
    Document (..),
    invalidDocument,
    invalidAfter,

    -- ** Ill-formed sequences
    Wrong (..),
    wrong,
    wrongKinds,

    -- * Chunks
    chunked,

    -- * Pieces
    contByte,
    upTo,
    ord1,
    ord2,
    ord3,
    ord4,
    spell,
  )
where

import Data.Bits (unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.Char (chr, ord)
import Data.Word (Word8)
import Test.QuickCheck (Gen, choose, elements, frequency, getSize, listOf1, oneof, vectorOf)

-- | A character of UTF-8, which has no surrogates: of each width as often as of the others, and
-- often one of the 'boundaries'.
character :: Gen Char
character = oneof (elements boundaries : map characterOf [1 .. 4])

-- | A character of this many bytes, 1 to 4.
characterOf :: Int -> Gen Char
characterOf = \case
  1 -> chr <$> choose (0, 0x7f)
  2 -> chr <$> choose (0x80, 0x7ff)
  3 -> chr <$> frequency [(0xd800 - 0x800, choose (0x800, 0xd7ff)), (0x2000, choose (0xe000, 0xffff))]
  _ -> chr <$> choose (0x10000, 0x10ffff)

-- | The first and last characters of every width and of every row of RFC 3629's grammar.
boundaries :: [Char]
boundaries =
  map
    chr
    [0, 0x7f, 0x80, 0x7ff, 0x800, 0xfff, 0x1000, 0xcfff, 0xd000, 0xd7ff]
    ++ map chr [0xe000, 0xfeff, 0xfffd, 0xffff, 0x10000, 0x3ffff, 0x40000, 0xfffff, 0x100000, 0x10ffff]

-- | Valid text: of one width, of all, or mostly ASCII, in runs.
validText :: Gen ByteString
validText = do
  size <- getSize
  n <- choose (0, max 8 (2 * size))
  validBytes n

-- | Valid text of exactly this many bytes.
validBytes :: Int -> Gen ByteString
validBytes total = do
  one <- elements [character, characterOf 1, pure ' ', characterOf 2, characterOf 3, characterOf 4, mostly]
  let go left
        | left <= 0 = pure []
        | otherwise = do
          bytes <- spell <$> one
          let width = length bytes
          if width <= left then (bytes :) <$> go (left - width) else (: []) . concatMap spell <$> vectorOf left (characterOf 1)
  ByteString.pack . concat <$> go total
  where
    mostly = frequency [(30, characterOf 1), (1, character)]

-- | Ill-formed text.
data Document = Document
  { -- | The bytes.
    documentBytes :: !ByteString,
    -- | The offset at which they stop being valid.
    documentOffset :: !Int,
    -- | The length of the maximal subpart there.
    documentSubpart :: !Int,
    -- | The kind of the ill-formed sequence, as in 'wrongKinds'.
    documentKind :: !String
  }
  deriving stock (Show)

-- | An ill-formed sequence: alone, at the start, at the end or inside of valid text; or text whose
-- last character the end cuts off.
--
-- Law (@precisely-invalid@): an automaton made of RFC 3629's grammar stops there.
invalidDocument :: Gen Document
invalidDocument = do
  before <- oneof [pure 0, ByteString.length <$> validText, choose (0, 130)]
  after <- oneof [pure ByteString.empty, validText, validBytes =<< choose (0, 130)]
  frequency [(4, surrounded before after wrong), (1, surrounded before ByteString.empty cutOff)]

-- | The same after exactly this many bytes of valid text.
--
-- Law (@precisely-invalid@): as for 'invalidDocument'.
invalidAfter :: Int -> Gen Document
invalidAfter before = do
  after <- oneof [pure ByteString.empty, validText]
  surrounded before after wrong

surrounded :: Int -> ByteString -> Gen Wrong -> Gen Document
surrounded before after gen = do
  text <- validBytes before
  Wrong kind bytes n <- gen
  pure
    Document
      { documentBytes = ByteString.concat [text, ByteString.pack bytes, after],
        documentOffset = before,
        documentSubpart = n,
        documentKind = kind
      }

-- | A sequence that is ill-formed whatever valid text follows it.
data Wrong = Wrong
  { -- | Its kind.
    wrongKind :: !String,
    -- | The bytes.
    wrongBytes :: ![Word8],
    -- | The length of its first maximal subpart.
    wrongSubpart :: !Int
  }
  deriving stock (Show)

-- | An ill-formed sequence of any kind.
wrong :: Gen Wrong
wrong = oneof (map snd wrongKinds)

-- | All kinds, each with its generator.
--
-- [Source]: O'Sullivan, Testing a UTF-8 decoder with vigour; repaired and completed.
wrongKinds :: [(String, Gen Wrong)]
wrongKinds =
  [ kind "stray continuation bytes" (stop 1 <$> listOf1 contByte),
    kind "lead of an overlong pair" (stop 1 <$> ((:) <$> choose (0xc0, 0xc1) <*> upTo 1 contByte)),
    kind "lead of no sequence" (stop 1 <$> ((:) <$> choose (0xf5, 0xff) <*> upTo 5 contByte)),
    kind "surrogate" (stop 1 . triple ord3 . chr <$> choose (0xd800, 0xdfff)),
    kind "pair of surrogates" . fmap (stop 1) $ do
      high <- choose (0xd800, 0xdbff)
      low <- choose (0xdc00, 0xdfff)
      pure (triple ord3 (chr high) ++ triple ord3 (chr low)),
    kind "above U+10FFFF" (stop 1 <$> (([0xf4 :: Word8] ++) <$> ((:) <$> choose (0x90, 0xbf) <*> vectorOf 2 contByte))),
    kind "the first above U+10FFFF" (pure (stop 1 [0xf4, 0x90, 0x80, 0x80])),
    kind "overlong ASCII" (stop 1 <$> (overlong [pair ord2, triple ord3, quadruple ord4] . chr =<< choose (0, 0x7f))),
    kind "overlong two-byte character" (stop 1 <$> (overlong [triple ord3, quadruple ord4] . chr =<< choose (0x80, 0x7ff))),
    kind "overlong three-byte character" (stop 1 <$> (overlong [quadruple ord4] . chr =<< choose (0x800, 0xffff))),
    kind "overlong at a boundary" . fmap (stop 1) . elements $
      [pair ord2 (chr c) | c <- [0, 0x2f, 0x7f]]
        ++ [triple ord3 (chr c) | c <- [0, 0x7f, 0x80, 0x7ff]]
        ++ [quadruple ord4 (chr c) | c <- [0, 0x7f, 0x80, 0x7ff, 0x800, 0xd800, 0xffff]],
    (cutOffKind, cutOff),
    kind "short, then ASCII" (short ((: []) <$> choose (0, 0x7f))),
    kind "short, then a lead" (short (spell <$> oneof (map characterOf [2 .. 4]))),
    kind "short, then a byte of no sequence" (short ((: []) <$> elements ([0xc0, 0xc1] ++ [0xf5 .. 0xff])))
  ]
  where
    kind name gen = (name, uncurry (Wrong name) <$> gen)
    stop n bytes = (bytes, n :: Int)
    overlong ways c = ($ c) <$> elements ways
    short following = do
      begun <- beginning
      (\more -> (begun ++ more, length begun)) <$> following
    pair f c = case f c of (a, b) -> [a, b]
    triple f c = case f c of (a, b, d) -> [a, b, d]
    quadruple f c = case f c of (a, b, d, e) -> [a, b, d, e]

-- The beginning of a character, which valid text or the end cuts off.
cutOff :: Gen Wrong
cutOff = (\begun -> Wrong cutOffKind begun (length begun)) <$> beginning

cutOffKind :: String
cutOffKind = "short, then valid text or the end"

-- The beginning of a character: one to three bytes of two to four.
beginning :: Gen [Word8]
beginning = do
  bytes <- spell <$> oneof [elements (filter (>= '\x80') boundaries), oneof (map characterOf [2 .. 4])]
  n <- choose (1, length bytes - 1)
  pure (take n bytes)

-- | Cut into chunks: whole, one byte each, or anywhere, with empty ones among them.
chunked :: ByteString -> Gen [ByteString]
chunked text = oneof [pure [text], pure (map ByteString.singleton (ByteString.unpack text)), go text]
  where
    go left
      | ByteString.null left = pure []
      | otherwise = do
        n <- frequency [(1, pure 0), (4, choose (1, 4)), (4, choose (1, 100))]
        (ByteString.take n left :) <$> go (ByteString.drop n left)

-- | A byte that continues a character.
contByte :: Gen Word8
contByte = (0x80 +) <$> choose (0, 0x3f)

-- | A list of at most this length.
upTo :: Int -> Gen a -> Gen [a]
upTo n gen = do
  k <- choose (0, n)
  vectorOf k gen

-- | A character below U+0080 as one byte.
ord1 :: Char -> Word8
ord1 = fromIntegral . ord

-- | A character below U+0800 as two bytes: overlong below U+0080.
ord2 :: Char -> (Word8, Word8)
ord2 c = (lead 0xc0 6 c, rest 0 c)

-- | A character below U+10000 as three bytes: overlong below U+0800.
ord3 :: Char -> (Word8, Word8, Word8)
ord3 c = (lead 0xe0 12 c, rest 6 c, rest 0 c)

-- | A character as four bytes: overlong below U+10000.
ord4 :: Char -> (Word8, Word8, Word8, Word8)
ord4 c = (lead 0xf0 18 c, rest 12 c, rest 6 c, rest 0 c)

lead :: Int -> Int -> Char -> Word8
lead mark n c = fromIntegral (mark .|. ord c `unsafeShiftR` n)

rest :: Int -> Char -> Word8
rest n c = fromIntegral (1 `unsafeShiftL` 7 .|. ord c `unsafeShiftR` n .&. 0x3f :: Int)

-- | The shortest encoding of a character.
--
-- >>> spell '\8364'
-- [226,130,172]
spell :: Char -> [Word8]
spell c
  | c < '\x80' = [ord1 c]
  | c < '\x800' = case ord2 c of (x, y) -> [x, y]
  | c < '\x10000' = case ord3 c of (x, y, z) -> [x, y, z]
  | otherwise = case ord4 c of (w, x, y, z) -> [w, x, y, z]
