-- | What the kernels of "Heddle.Bytes.Search" are compared with: plain Haskell, texts drawn by
-- number, and memory between two pages that must not be touched.
module SearchOracle
  ( -- * Memory
    Arena,
    withArena,
    arenaSize,
    atEnd,
    atStart,

    -- * Texts by number
    Draw,
    drawFor,
    below,
    pools,
    slice,

    -- * Answers
    naiveFind,
    naiveLines,
    wholeLines,
  )
where

import Control.Exception (bracket)
import Data.Bits (shiftR, xor)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.List (find)
import Data.Maybe (fromMaybe)
import Data.Word (Word64, Word8)
import Foreign.C.Types (CInt (..), CLong (..), CSize (..))
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, nullPtr, plusPtr)
import Heddle.Bytes.Search (CaseRule (..))

-- | Memory whose neighbours on both sides end the program when they are read.
newtype Arena = Arena (Ptr Word8)

page, arenaSize :: Int
page = 4096
arenaSize = 40 * page

withArena :: (Arena -> IO a) -> IO a
withArena = bracket open close
  where
    size = fromIntegral (arenaSize + 2 * page)
    open = do
      p <- c_mmap nullPtr size 0 0x22 (-1) 0
      if p `minusPtr` nullPtr == -1 then fail "mmap failed" else pure ()
      0 <- c_mprotect (p `plusPtr` page) (fromIntegral arenaSize) 3
      pure (Arena (p `plusPtr` page))
    close (Arena p) = c_munmap (p `plusPtr` negate page) size

-- | The text, ending where memory ends.
atEnd :: Arena -> ByteString -> IO (Ptr Word8)
atEnd arena text = place arena (arenaSize - Bytes.length text) text

-- | The text, this many bytes after the start of the memory.
atStart :: Arena -> Int -> ByteString -> IO (Ptr Word8)
atStart = place

place :: Arena -> Int -> ByteString -> IO (Ptr Word8)
place (Arena p) offset text = do
  unsafeUseAsCStringLen text (\(from, n) -> copyBytes (p `plusPtr` offset) (castPtr from) n)
  pure (p `plusPtr` offset)

-- | An endless choice of numbers, given by a case's number.
newtype Draw = Draw Word64

drawFor :: Int -> Draw
drawFor = Draw . mixed . fromIntegral

-- | The k-th number of a case, below n.
below :: Draw -> Int -> Int -> Int
below (Draw seed) k n
  | n <= 0 = 0
  | otherwise = fromIntegral (mixed (seed + fromIntegral k * 0x9e3779b97f4a7c15) `mod` fromIntegral n)

-- SplitMix's finaliser.
mixed :: Word64 -> Word64
mixed z0 = z2 `xor` (z2 `shiftR` 31)
  where
    z1 = (z0 `xor` (z0 `shiftR` 30)) * 0xbf58476d1ce4e5b9
    z2 = (z1 `xor` (z1 `shiftR` 27)) * 0x94d049bb133111eb

-- | Long texts over alphabets that lead to different paths: few letters, hence many near
-- hits; lines; letters beside and beyond the ASCII ones; all bytes; NULs; words.
pools :: [ByteString]
pools =
  [ over "ab",
    over "aaaaaaaaaaaaaaab",
    over "abc\n",
    over "aAbBkKzZ@[`{\n",
    over "aA\xc1\xe1\x81\x01\xdf\xff\n",
    over (map toEnum [0 .. 255]),
    over "\0\0\0a\xff\n",
    Bytes.take poolSize (Bytes.concat [wordsOf !! below (drawFor i) 9 (length wordsOf) | i <- [1 .. poolSize]])
  ]
  where
    over letters = fst (Bytes.unfoldrN poolSize (\i -> Just (Bytes.index (Char8.pack letters) (below (drawFor i) (length letters) (length letters)), i + 1)) 1)
    wordsOf = map Char8.pack ["the ", "of ", "Find ", "ME ", "FIND ME", "find\n", "\n", "\n", "tion ", "water ", "e", "er\n"]

poolSize :: Int
poolSize = 200000

slice :: Int -> Int -> ByteString -> ByteString
slice from n = Bytes.take n . Bytes.drop from

folded :: CaseRule -> ByteString -> ByteString
folded CaseMatters = id
folded IgnoreAsciiCase = Bytes.map (\c -> if c >= 65 && c <= 90 then c + 32 else c)

-- | The first place at or after one where a literal begins, or -1.
naiveFind :: CaseRule -> [ByteString] -> ByteString -> Int -> Int
naiveFind rule literals text from = fromMaybe (-1) (find begins [from .. Bytes.length text])
  where
    text' = folded rule text
    literals' = map (folded rule) literals
    begins i = any (`Bytes.isPrefixOf` Bytes.drop i text') literals'

-- | Start and end of each line that contains a literal, and the lines skipped before it.
naiveLines :: CaseRule -> [ByteString] -> ByteString -> [(Int, Int, Int)]
naiveLines rule literals text = skips (-1) (filter contains (zip [0 ..] (wholeLines text)))
  where
    contains (_, (from, to)) = naiveFind rule literals (slice from (to - from) text) 0 >= 0
    skips _ [] = []
    skips before ((i, (from, to)) : rest) = (from, to, i - before - 1) : skips i rest

-- | Start and end of each line.
wholeLines :: ByteString -> [(Int, Int)]
wholeLines text = go 0
  where
    size = Bytes.length text
    go from
      | from >= size = []
      | otherwise = case Bytes.elemIndex 10 (Bytes.drop from text) of
        Nothing -> [(from, size)]
        Just n -> (from, from + n) : go (from + n + 1)

-- Unsafe: the kernel notes the mapping; the memory is not touched.
foreign import ccall unsafe "mmap" c_mmap :: Ptr a -> CSize -> CInt -> CInt -> CInt -> CLong -> IO (Ptr Word8)

-- Unsafe: the kernel notes the protection.
foreign import ccall unsafe "mprotect" c_mprotect :: Ptr Word8 -> CSize -> CInt -> IO CInt

-- Unsafe: gives some pages back.
foreign import ccall unsafe "munmap" c_munmap :: Ptr Word8 -> CSize -> IO CInt
