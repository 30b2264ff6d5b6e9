-- |
-- Module      : Heddle.Bytes.Internal.Utf8Chunks
-- Description : UTF-8 that comes in chunks, and UTF-8 that is not valid
-- Stability   : internal; exempt from the version policy
--
-- A chunk may end within a character. Its first bytes, three at most, wait for the next chunk;
-- the chunk itself is not kept.
--
-- Invariant: what waits is the beginning of a character, and never a whole one.
-- Cost: the kernels', and for each chunk that ends within a character a few instructions more.
-- Owner: the states are values; any of them may be gone on from, more than once.
module Heddle.Bytes.Internal.Utf8Chunks
  ( -- * Checking
    State,
    Verdict (..),
    start,
    feed,
    finish,

    -- * Decoding
    feedText,

    -- * Decoding with replacement
    Replacing,
    replacing,
    feedReplacing,
    finishReplacing,

    -- * One chunk
    invalidBehind,
    replacedText,
    repairedBytes,
  )
where

import Control.Monad (void, when)
import Control.Monad.Primitive (RealWorld)
import Data.Bits (unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (create, memcpy)
import Data.ByteString.Unsafe qualified as ByteString (unsafeDrop, unsafeIndex)
import Data.Primitive.ByteArray (MutableByteArray, writeByteArray)
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Word (Word16, Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.Bytes.Internal.Foreign.Utf8 (pokeReplacedBytes, replacedBytes, replacedUnits)
import Heddle.Bytes.Internal.Utf8
import Heddle.Bytes.Utf8.Plain (Sequence (..), sequenceOf, surrogatePair)
import Heddle.Prim.Cpu (level)
import Heddle.Prim.Unsafe (unsafeDupable, unsafeInlined)

-- | Bytes that wait: how many, and the bytes, the first one lowest.
data Waiting = Waiting !Int !Word

none :: Waiting
none = Waiting 0 0

waitingByte :: Word -> Int -> Word8
waitingByte bytes i = fromIntegral (bytes `unsafeShiftR` (8 * i))
{-# INLINE waitingByte #-}

-- | What was found so far.
data State
  = -- | Bytes before those that wait.
    Going !Int !Waiting
  | Failed !Invalid

-- | What the chunks were, up to now.
data Verdict
  = -- | Valid text of whole characters.
    Whole
  | -- | The same, and the beginning of a character.
    Partial
  | -- | Not valid, whatever comes: the first place where it is not.
    Bad !Invalid
  deriving stock (Eq, Show)

-- | Before the first chunk.
start :: State
start = Going 0 none

-- | Look at one more chunk. Once it was 'Bad', it stays so.
--
-- [Cost]: O(n), by the machine's vectors.
-- [Units]: offsets count from the first byte of the first chunk.
--
-- Law (@chunks@): however text is cut into chunks, the last verdict is the same, and 'finish'
-- gives that of 'Heddle.Bytes.Utf8.validate'.
feed :: State -> ByteString -> (State, Verdict)
feed state chunk = case state of
  Failed bad -> (state, Bad bad)
  Going before waiting -> case joined waiting chunk of
    More now -> going before now
    Broken n -> failed before n
    Joined n rest ->
      let done = ByteString.length rest
       in case prefixOf rest of
            Prefix valid ending -> case ending of
              Nothing -> going (before + n + done) none
              Just CutOff -> going (before + n + valid) (waitingFrom valid rest)
              Just (IllFormed bad) -> failed (before + n + valid) bad
              Just (Complete _) -> going (before + n + valid) none

-- | No chunk comes any more: what is 'Partial' is bad.
--
-- [Cost]: O(1).
finish :: State -> Verdict
finish = \case
  Failed bad -> Bad bad
  Going _ (Waiting 0 _) -> Whole
  Going before (Waiting n _) -> Bad (Invalid before n)

-- | Look at one more chunk, and give the text of the characters that ended in it, up to the first
-- place that is not valid. The beginning of a character waits for the next chunk.
--
-- [Cost]: O(n), by the machine's vectors; the text.
--
-- Law (@chunks-text@): the texts, one after the other, are that of the valid beginning of all
-- chunks.
feedText :: State -> ByteString -> (Text, State, Verdict)
feedText state chunk = case state of
  Failed bad -> (Text.empty, state, Bad bad)
  Going before waiting -> case joined waiting chunk of
    More now -> with Text.empty (going before now)
    Broken n -> with Text.empty (failed before n)
    Joined n rest -> unsafeDupable . withBytes rest $ \p size -> do
      Measured valid count <- validUnits p size
      let character = if n > 0 then Just (joinedCode waiting chunk) else Nothing
          first = maybe 0 codeUnits character
      text <- newText (first + count) $ \array -> do
        mapM_ (fillCode array 0) character
        void (fillUnits p valid array first (first + count))
      ending <- if valid == size then pure Nothing else Just <$> sequenceAt p size valid
      pure . with text $ case ending of
        Just CutOff -> going (before + n + valid) (waitingFrom valid rest)
        Just (IllFormed bad) -> failed (before + n + valid) bad
        _ -> going (before + n + valid) none
  where
    with text (next, verdict) = (text, next, verdict)

going :: Int -> Waiting -> (State, Verdict)
going before waiting = (Going before waiting, verdict)
  where
    verdict = case waiting of
      Waiting 0 _ -> Whole
      Waiting _ _ -> Partial

failed :: Int -> Int -> (State, Verdict)
failed at n = (Failed bad, Bad bad)
  where
    bad = Invalid at n

-- | What waits and a chunk, put together.
data Joining
  = -- | The character is still not whole.
    More !Waiting
  | -- | So many bytes, of what waited and of the chunk, are ill-formed.
    Broken !Int
  | -- | A whole character of so many bytes (none if nothing waited), and the rest of the chunk.
    Joined !Int !ByteString

joined :: Waiting -> ByteString -> Joining
joined (Waiting 0 _) chunk = Joined 0 chunk
joined waiting@(Waiting n _) chunk = case sequenceOf (n + ByteString.length chunk) (joinedByte waiting chunk) of
  Just CutOff -> More (appended waiting chunk)
  Just (IllFormed bad) -> Broken bad
  Just (Complete width) -> Joined width (ByteString.unsafeDrop (width - n) chunk)
  Nothing -> More waiting

-- In 'Maybe' for a monad; it is always there.
joinedByte :: Waiting -> ByteString -> Int -> Maybe Word8
joinedByte (Waiting n bytes) chunk i
  | i < n = Just (waitingByte bytes i)
  | otherwise = Just (ByteString.unsafeIndex chunk (i - n))

appended :: Waiting -> ByteString -> Waiting
appended = ByteString.foldl' (\(Waiting n bytes) b -> Waiting (n + 1) (bytes .|. fromIntegral b `unsafeShiftL` (8 * n)))

waitingFrom :: Int -> ByteString -> Waiting
waitingFrom at text = appended none (ByteString.unsafeDrop at text)

-- The character that 'joined' made whole.
joinedCode :: Waiting -> ByteString -> Int
joinedCode (Waiting n bytes) chunk = foldl more first (take (width - 1) [1 ..])
  where
    lead = fromIntegral (waitingByte bytes 0) :: Int
    width
      | lead < 0xe0 = 2
      | lead < 0xf0 = 3
      | otherwise = 4 :: Int
    first = lead .&. (0x7f `unsafeShiftR` width)
    more code i = code `unsafeShiftL` 6 .|. fromIntegral (byte i) .&. 0x3f
    byte i
      | i < n = waitingByte bytes i
      | otherwise = ByteString.unsafeIndex chunk (i - n)

codeUnits :: Int -> Int
codeUnits code = if code < 0x10000 then 1 else 2

fillCode :: MutableByteArray RealWorld -> Int -> Int -> IO ()
fillCode array at code
  | code < 0x10000 = writeByteArray array at (fromIntegral code :: Word16)
  | otherwise = case surrogatePair code of
    (high, low) -> writeByteArray array at high >> writeByteArray array (at + 1) low

-- | Up to where a chunk is valid, and what is there, unless it is the end.
data Prefix = Prefix !Int !(Maybe Sequence)

prefixOf :: ByteString -> Prefix
prefixOf text = unsafeInlined . withBytes text $ \p n -> do
  valid <- validPrefix p n
  if valid == n then pure (Prefix n Nothing) else Prefix valid . Just <$> sequenceAt p n valid

sequenceAt :: Ptr Word8 -> Int -> Int -> IO Sequence
sequenceAt p n at = sequenceOf (n - at) (\i -> peekByteOff p (at + i))

-- | What is not valid behind this many bytes of a text that are; it must be known that there is
-- something, or that it is the end.
--
-- [Cost]: O(1).
invalidBehind :: Ptr Word8 -> Int -> Int -> IO (Maybe Invalid)
invalidBehind p n valid
  | valid == n = pure Nothing
  | otherwise = Just . Invalid valid . bad <$> sequenceAt p n valid
  where
    bad = \case
      IllFormed len -> len
      _ -> n - valid

-- | The state of a decoder that replaces what is not valid: what waits.
newtype Replacing = Replacing Waiting

-- | Before the first chunk.
replacing :: Replacing
replacing = Replacing none

-- | The text of one more chunk, with U+FFFD for each maximal subpart that is not valid. The
-- beginning of a character waits for the next chunk.
--
-- [Cost]: O(n), also where nothing is valid; the text.
--
-- Law (@chunks-replacing@): the texts, one after the other and with that of 'finishReplacing', are
-- 'Heddle.Bytes.Utf8.decodeReplacing' of all chunks.
feedReplacing :: Replacing -> ByteString -> (Text, Replacing)
feedReplacing (Replacing waiting@(Waiting waited _)) chunk = case joined waiting chunk of
  More now -> (Text.empty, Replacing now)
  Broken n -> decoded (Just 0xfffd) (ByteString.unsafeDrop (n - waited) chunk)
  Joined n rest -> decoded (if n > 0 then Just (joinedCode waiting chunk) else Nothing) rest
  where
    decoded character rest = unsafeDupable . withBytes rest $ \p n -> do
      let first = maybe 0 codeUnits character
      Measured end count <- measureReplaced (\from size _ -> replacedUnits level from size) p n first
      text <- newText count $ \array -> do
        mapM_ (fillCode array 0) character
        void (fillReplaced p n array first count)
      pure (text, Replacing (waitingFrom end rest))

-- | No chunk comes any more: U+FFFD for what waits.
--
-- [Cost]: O(1).
finishReplacing :: Replacing -> Text
finishReplacing (Replacing (Waiting n _)) = if n == 0 then Text.empty else Text.singleton '\xfffd'

-- | The text, with U+FFFD for each maximal subpart that is not valid.
--
-- [Cost]: O(n).
replacedText :: ByteString -> Text
replacedText text = unsafeDupable . withBytes text $ \p n -> do
  Measured valid count <- validUnits p n
  if valid == n
    then newText count (\array -> void (fillUnits p n array 0 count))
    else do
      let rest = p `plusPtr` valid
      Measured end replaced <- measureReplaced (\from size _ -> replacedUnits level from size) rest (n - valid) count
      let cutOff = if end < n - valid then 1 else 0
      newText (replaced + cutOff) $ \array -> do
        _ <- fillUnits p valid array 0 count
        _ <- fillReplaced rest (n - valid) array count replaced
        when (cutOff == 1) (fillCode array replaced 0xfffd)

-- | The same as UTF-8; the text itself if it is valid.
--
-- [Cost]: O(n); no copy of valid text.
repairedBytes :: ByteString -> ByteString
repairedBytes text = unsafeDupable . withBytes text $ \p n -> do
  valid <- validPrefix p n
  if valid == n
    then pure text
    else do
      let rest = p `plusPtr` valid
      Measured end size <- measureReplaced (\from len _ -> replacedBytes level from len) rest (n - valid) valid
      let cutOff = if end < n - valid then 3 else 0
      ByteString.create (size + cutOff) $ \to -> do
        ByteString.memcpy to p valid
        _ <-
          measureReplaced (\from len at -> pokeReplacedBytes level from len (to `plusPtr` at) (size - at)) rest (n - valid) valid
        when (cutOff == 3) $ do
          pokeByteOff to size (0xef :: Word8)
          pokeByteOff to (size + 1) (0xbf :: Word8)
          pokeByteOff to (size + 2) (0xbd :: Word8)
