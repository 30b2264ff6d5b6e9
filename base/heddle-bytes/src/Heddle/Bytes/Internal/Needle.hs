{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Bytes.Internal.Needle
-- Description : Literals, and the lines of raw blocks that contain them
-- Stability   : internal; exempt from the version policy
--
-- A 'Needle' is one literal, or a set of literals any of which is searched for. It is prepared once, has
-- no state, and can be used by any threads on any streams. The kernels search for its two rarest bytes
-- with vectors and compare only where both occur. A text that resembles the needle everywhere uses up
-- their budget of comparisons, and the Two-Way algorithm continues: the search is linear for all inputs.
--
-- Cost: a call is about 20 ns and allocates nothing; then, with AVX2, 70 to 95 GB/s in the
-- cache without hits, 10 ns for a line that is counted, 20 ns for one that is found and numbered; at
-- worst 3 ns per byte. Several literals are searched for one after the other.
-- The calls are unsafe; see "Heddle.Bytes.Internal.Search".
-- Owner: any thread; the block is the caller's, and must not change during the call.
module Heddle.Bytes.Internal.Needle
  ( -- * Needles
    CaseRule (..),
    Needle,
    needleRule,
    needleLiterals,
    mostLiterals,
    newNeedleAt,
    newNeedlesAt,

    -- * Places
    findNeedleAt,

    -- * For tests
    findNeedleTired,
    needleWork,

    -- * Lines

    -- | A block begins at a line's start; a line ends before its newline, or at the block's
    -- end. A literal that contains a newline is in no line, the empty one is in each.
    countLinesAt,
    Lines,
    newLines,
    linesCapacity,
    nextLinesAt,
    lineStart,
    lineEnd,
    linesSkipped,
  )
where

import Control.Monad (forM_)
import Data.Bits (complement, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.C.Types (CInt (..))
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekElemOff)
import Heddle.Bytes.Internal.Search (Level, levelCode)
import Heddle.Prim.Buffer (Buffer, bufferSize, newBuffer, withBuffer)
import Heddle.Prim.Unsafe (unsafeDupable)

-- | Whether the case of letters matters.
data CaseRule
  = -- | Byte for byte.
    CaseMatters
  | -- | @A@ to @Z@ equal @a@ to @z@; all other bytes, those of other alphabets included,
    -- equal only themselves.
    IgnoreAsciiCase
  deriving stock (Bounded, Enum, Eq, Ord, Show)

-- | A literal to search for, or several of which any is searched for.
data Needle = Needle
  { -- | Whether the case of letters matters.
    needleRule :: !CaseRule,
    -- | The literals, as they were given.
    needleLiterals :: ![ByteString],
    -- | The prepared literals one after the other, each with the distance to the next. Boxed, because
    -- keeping it alive during a call takes the box.
    needleReady :: {-# NOUNPACK #-} !Buffer
  }

-- | Compares the literals and their case rule.
instance Eq Needle where
  a == b = needleRule a == needleRule b && needleLiterals a == needleLiterals b

instance Show Needle where
  showsPrec d n =
    showParen (d > 10) $
      showString "Needle " . shows (needleRule n) . showString " " . shows (needleLiterals n)

-- | The most literals of a needle.
mostLiterals :: Int
mostLiterals = 32

-- | Prepare one literal for the kernels of a level.
--
-- [Cost]: O(n); twice the literal and 100 bytes.
newNeedleAt :: Level -> CaseRule -> ByteString -> Needle
newNeedleAt level rule literal = unsafeDupable (ready level rule [literal])

-- | Prepare several literals; 'Nothing' for none, or for more than 'mostLiterals'.
--
-- [Cost]: O(n); twice the literals and 100 bytes each.
newNeedlesAt :: Level -> CaseRule -> [ByteString] -> Maybe Needle
newNeedlesAt level rule literals
  | null literals || length literals > mostLiterals = Nothing
  | otherwise = Just (unsafeDupable (ready level rule literals))

ready :: Level -> CaseRule -> [ByteString] -> IO Needle
ready level rule literals = do
  sizes <- mapM (fmap aligned . c_size . Bytes.length) literals
  buffer <- newBuffer (sum sizes)
  let starts = scanl (+) 0 sizes
      nexts = map (const True) (drop 1 literals) ++ [False]
  withBuffer buffer $ \p ->
    forM_ (zip (zip literals nexts) (zip starts sizes)) $ \((literal, more), (start, size)) ->
      unsafeUseAsCStringLen literal $ \(bytes, n) ->
        c_make (p `plusPtr` start) (levelCode level) fold (castPtr bytes) n (if more then size else 0)
  pure (Needle rule literals buffer)
  where
    fold = if rule == IgnoreAsciiCase then 1 else 0
    aligned n = (n + 7) .&. complement 7

-- | @findNeedleAt needle text length from@ is the first place, at or after @from@, where
-- a literal begins, or -1. Literals may contain anything.
--
-- [Blocks]: never.
findNeedleAt :: Needle -> Ptr Word8 -> Int -> Int -> IO Int
findNeedleAt n text size from = withBuffer (needleReady n) $ \p -> c_find p text size from
{-# INLINE findNeedleAt #-}

-- | For tests: find the first literal by the Two-Way algorithm alone.
findNeedleTired :: Needle -> Ptr Word8 -> Int -> Int -> IO Int
findNeedleTired n text size from = withBuffer (needleReady n) $ \p -> c_find_tired p text size from

-- | For tests: how many steps finding all occurrences of the first literal takes, beyond
-- the vectors' pass.
needleWork :: Needle -> Ptr Word8 -> Int -> IO Int
needleWork n text size = withBuffer (needleReady n) $ \p -> c_work p text size

-- | How many lines of the block contain a literal.
--
-- [Blocks]: never.
countLinesAt :: Needle -> Ptr Word8 -> Int -> IO Int
countLinesAt n block size = withBuffer (needleReady n) $ \p -> c_count_lines p block size
{-# INLINE countLinesAt #-}

-- | A buffer for lines that were found. One thread owns and reuses it.
newtype Lines = Lines Buffer

-- | A buffer for this many lines.
--
-- [Cost]: 24 bytes each.
newLines :: Int -> IO Lines
newLines n = Lines <$> newBuffer (n * 24)

-- | The number of lines that fit.
linesCapacity :: Lines -> Int
linesCapacity (Lines b) = bufferSize b `quot` 24
{-# INLINE linesCapacity #-}

-- | @nextLinesAt needle block length from numbered lines@ finds the next lines that contain
-- a literal, from @from@ on, which is a line's start. It stores them in @lines@ and returns how many
-- it found. If @lines@ is full, continue from the last one's 'lineEnd' + 1.
--
-- With @numbered@, it counts the lines between them: see 'linesSkipped'.
--
-- [Blocks]: never.
nextLinesAt :: Needle -> Ptr Word8 -> Int -> Int -> Bool -> Lines -> IO Int
nextLinesAt n block size from numbered found@(Lines b) =
  withBuffer (needleReady n) $ \p ->
    withBuffer b $ \out ->
      c_lines p block size from (if numbered then 1 else 0) out (linesCapacity found)
{-# INLINE nextLinesAt #-}

-- | The offset at which the i-th line found begins; i counts from 0.
lineStart :: Lines -> Int -> IO Int
lineStart found i = field found (3 * i)
{-# INLINE lineStart #-}

-- | The offset of its newline, or the block's length.
lineEnd :: Lines -> Int -> IO Int
lineEnd found i = field found (3 * i + 1)
{-# INLINE lineEnd #-}

-- | The number of lines between it and the line found before it; for the first one, between it and the
-- offset where 'nextLinesAt' began.
linesSkipped :: Lines -> Int -> IO Int
linesSkipped found i = field found (3 * i + 2)
{-# INLINE linesSkipped #-}

field :: Lines -> Int -> IO Int
field (Lines b) i = withBuffer b $ \p -> peekElemOff (castPtr p) i
{-# INLINE field #-}

-- Unsafe: arithmetic.
foreign import ccall unsafe "heddle_needle_size" c_size :: Int -> IO Int

-- Unsafe: passes over the literal a few times, without a system call.
foreign import ccall unsafe "heddle_needle_make"
  c_make :: Ptr Word8 -> CInt -> CInt -> Ptr Word8 -> Int -> Int -> IO ()

-- Unsafe: linear in the caller's bytes, without a system call.
foreign import ccall unsafe "heddle_needle_find"
  c_find :: Ptr Word8 -> Ptr Word8 -> Int -> Int -> IO Int

-- Unsafe: linear in the caller's bytes, without a system call.
foreign import ccall unsafe "heddle_needle_find_tired"
  c_find_tired :: Ptr Word8 -> Ptr Word8 -> Int -> Int -> IO Int

-- Unsafe: linear in the caller's bytes, without a system call.
foreign import ccall unsafe "heddle_needle_work"
  c_work :: Ptr Word8 -> Ptr Word8 -> Int -> IO Int

-- Unsafe: linear in the caller's bytes, without a system call.
foreign import ccall unsafe "heddle_needle_count_lines"
  c_count_lines :: Ptr Word8 -> Ptr Word8 -> Int -> IO Int

-- Unsafe: linear in the caller's bytes, without a system call.
foreign import ccall unsafe "heddle_needle_lines"
  c_lines :: Ptr Word8 -> Ptr Word8 -> Int -> Int -> CInt -> Ptr Word8 -> Int -> IO Int
