{-# LANGUAGE MultiWayIf #-}

-- |
-- Module      : Heddle.Json.Internal.Decoder
-- Description : The decoder monad and its state
-- Stability   : internal; exempt from the version policy
--
-- A decoder starts at the first byte of a value, or at the end of the text, and ends after the
-- value's last byte. Its caller skips white space. A decoder fails by an exception that 'runText'
-- catches, so success costs no comparison of results.
--
-- Invariant: a decoder reads exactly one value, and refuses invalid JSON in values that it skips, too.
-- Cost: each function's.
-- Owner: the thread that decodes.
module Heddle.Json.Internal.Decoder
  ( -- * Decoders
    Decoder (..),
    decoder,
    runDecoder,

    -- * Their environment
    Env (..),

    -- * Failing
    Failed (..),
    failAt,
    wrongKind,
    expected,

    -- * Steps
    space,
    byteAt,
    deeper,
    separated,
    Separator (..),

    -- * Strings, raw
    closeString,
    checkString,
    refuseContents,

    -- * Whole values
    skipValue,

    -- * Running
    runText,
    runPure,
  )
where

import Control.Applicative (Alternative (..))
import Control.Monad (when)
import Control.Monad.Primitive (RealWorld)
import Data.Bits (unsafeShiftL, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (toForeignPtr)
import Data.Primitive.Array (MutableArray)
import Data.Primitive.ByteArray (newByteArray, readByteArray, writeByteArray)
import Data.Primitive.MutVar (MutVar, newMutVar)
import Data.Text (Text)
import Data.Word (Word64, Word8)
import Foreign.C.Types (CInt)
import Foreign.ForeignPtr (ForeignPtr, touchForeignPtr)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Foreign.Storable (peek)
import Heddle.Json.Internal.Foreign.Read
import Heddle.Json.Internal.Path (pathTo)
import Heddle.Json.Malformed
import Heddle.Json.Options
import Heddle.Prim.AddrState (AddrState, At (..), reusableAddrState, runAddrState)
import Heddle.Prim.Buffer (foreignAddress)
import Heddle.Prim.Exception (Exception (..), SomeException, catch, throwIO, throwTo)
import Heddle.Prim.Thread (myThreadId)
import Heddle.Prim.Unsafe (unsafePure)

-- | Makes an @a@ from one JSON value.
newtype Decoder a = Decoder (AddrState Env a)

-- | The environment of decoders. Of 'envWords', words 0 and 1 are the kernels' answers, word 2 counts the
-- open arrays and objects, and the words from 3 on are the state of skipping.
data Env = Env
  { -- | The end of the text.
    envEnd :: !(Ptr Word8),
    -- | The text's first byte.
    envStart :: !(Ptr Word8),
    -- | The mutable words.
    envWords :: !Memory,
    -- | The greatest number of open arrays and objects.
    envDepth :: !Int,
    -- | The greatest length of a number, less than a slice.
    envNumber :: !Int,
    -- | The instruction set that the kernels use.
    envLevel :: !CInt,
    -- | The policy for duplicate keys.
    envDuplicates :: !Duplicates,
    -- | The policy for infinities and NaN.
    envNonFinite :: !NonFinite,
    -- | The greatest exponent of an integer.
    envExponent :: !Int,
    -- | Keeps the text alive.
    envInput :: !(ForeignPtr Word8),
    -- | Keys of maps so far, for sharing.
    envKeys :: !KeyCache
  }

-- | Keys by their hash; 'Nothing' before the first key.
type KeyCache = MutVar RealWorld (Maybe (MutableArray RealWorld Text))

-- | A cache without keys.
newKeyCache :: IO KeyCache
newKeyCache = newMutVar Nothing

-- | The index of the word that counts open arrays and objects.
depthWord :: Int
depthWord = 2

-- | A decoder from a function of the value's address. What the function captures, above all tables of keys,
-- is computed once and not for each value.
decoder :: (Env -> Ptr Word8 -> IO (At a)) -> Decoder a
decoder f = Decoder (reusableAddrState f)
{-# INLINE decoder #-}

-- | Run a decoder. 'seq' first: calling an evaluated function is a jump, calling a possible thunk
-- allocates a partial application.
runDecoder :: Decoder a -> Env -> Ptr Word8 -> IO (At a)
runDecoder (Decoder w) env p = w `seq` runAddrState w env p
{-# INLINE runDecoder #-}

-- | The function's result is evaluated at once.
instance Functor Decoder where
  fmap f d = decoder $ \env p -> do
    At q x <- runDecoder d env p
    let !y = f x
    pure (At q y)
  {-# INLINE fmap #-}

-- | Both decoders read the same value, one after the other; 'pure' skips it.
instance Applicative Decoder where
  pure x = decoder $ \env p -> do
    q <- skipValue env p
    pure (At q x)
  df <*> dx = decoder $ \env p -> do
    At _ f <- again env p df
    At q x <- runDecoder dx env p
    let !y = f x
    pure (At q y)
  {-# INLINE (<*>) #-}

-- | The second decoder, which depends on the first one's result, reads the same value again.
instance Monad Decoder where
  d >>= k = decoder $ \env p -> do
    At _ x <- again env p d
    runDecoder (k x) env p
  {-# INLINE (>>=) #-}

instance MonadFail Decoder where
  fail why = decoder $ \env p -> failAt env p (Refused why)

-- | The first decoder that succeeds. If both fail, the error further into the text is reported, or the
-- second one's if both are at the same place. The second reads again what the first has read: for a
-- decoder that contains itself on both sides, the time doubles with each level.
instance Alternative Decoder where
  empty = decoder $ \env p -> failAt env p (Refused "no alternative")
  a <|> b = decoder $ \env p -> do
    depth <- readByteArray (envWords env) depthWord :: IO Int
    runDecoder a env p `catch` \first@(Failed offset _) -> do
      writeByteArray (envWords env) depthWord depth
      runDecoder b env p `catch` \second@(Failed offset' _) ->
        throwIO (if offset > offset' then first else second)

-- Run a decoder whose end does not count, since another one reads the same value.
again :: Env -> Ptr Word8 -> Decoder a -> IO (At a)
again env p d = runDecoder d env p
{-# INLINE again #-}

-- | Why a decoder stopped, and how far into the text. Only '<|>' and 'attempt' catch it.
--
-- A plain exception suffices for this control flow: what a program gives to a decoder are pure functions, which return
-- before the next step runs. So no handler of the program is ever between a 'throwIO' here and 'attempt', and each
-- decoding within such a function has an 'attempt' of its own.
data Failed = Failed !Int Reason
  deriving stock (Show)

instance Exception Failed

-- | Fail at this address.
failAt :: Env -> Ptr Word8 -> Reason -> IO b
failAt env p reason = throwIO (Failed (p `minusPtr` envStart env) reason)
{-# NOINLINE failAt #-}

-- | Fail because something else is expected here, or because the text ends here.
expected :: Env -> Ptr Word8 -> String -> IO b
expected env p what
  | p >= envEnd env = failAt env (envEnd env) Truncated
  | otherwise = failAt env p (Expected what)
{-# NOINLINE expected #-}

-- | Fail because a value of this kind is expected here.
wrongKind :: Env -> Ptr Word8 -> String -> IO b
wrongKind env p wanted
  | p >= envEnd env = failAt env (envEnd env) Truncated
  | otherwise = do
    c <- peek p
    case c of
      0x22 -> wrong "a string"
      0x7b -> wrong "an object"
      0x5b -> wrong "an array"
      0x74 -> whole "true"
      0x66 -> whole "false"
      0x6e -> whole "null"
      _
        | c == 0x2d || c - 0x30 < 10 -> whole "a number"
        | otherwise -> failAt env p (Expected "a value")
  where
    wrong found = failAt env p (WrongKind wanted found)
    -- If it is no valid literal or number, skipping it fails further on, with a better reason.
    whole found = skipValue env p >> wrong found
{-# NOINLINE wrongKind #-}

-- | Skip white space, up to the end of the text at most.
--
-- [Cost]: a comparison if there is none.
space :: Env -> Ptr Word8 -> IO (Ptr Word8)
space env p
  | p < envEnd env = do
    c <- peek p
    if c > 0x20 then pure p else moreSpace (envEnd env) p
  | otherwise = pure p
{-# INLINE space #-}

moreSpace :: Ptr Word8 -> Ptr Word8 -> IO (Ptr Word8)
moreSpace !end = go
  where
    go !p
      | end `minusPtr` p >= 8 = do
        w <- peek (castPtr p)
        if w == (0x2020202020202020 :: Word64) then go (p `plusPtr` 8) else one p
      | p < end = one p
      | otherwise = pure p
    one !p = do
      c <- peek p
      if c == 0x20 || c == 0x0a || c == 0x0d || c == 0x09 then go (p `plusPtr` 1) else pure p
{-# NOINLINE moreSpace #-}

-- | The byte at this address; 0 at the end of the text.
byteAt :: Env -> Ptr Word8 -> IO Word8
byteAt env p
  | p < envEnd env = peek p
  | otherwise = pure 0
{-# INLINE byteAt #-}

-- | Decode the contents of an array or object, which opens here, one level deeper. The function gets the
-- address of the first byte after the bracket and white space, and ends after the closing bracket.
deeper :: Env -> Ptr Word8 -> (Ptr Word8 -> IO (At a)) -> IO (At a)
deeper env p inside = do
  depth <- readByteArray (envWords env) depthWord
  when (depth >= envDepth env) (failAt env p (TooDeep (envDepth env)))
  writeByteArray (envWords env) depthWord (depth + 1)
  q <- space env (p `plusPtr` 1)
  r <- inside q
  writeByteArray (envWords env) depthWord depth
  pure r
{-# INLINE deeper #-}

-- | What follows an element or a member.
data Separator
  = -- | A comma: the next one begins here.
    Comma !(Ptr Word8)
  | -- | The closing bracket: the array or object ends here.
    Close !(Ptr Word8)

-- | Read a comma or this closing bracket, after white space.
separated :: Env -> Word8 -> String -> Ptr Word8 -> IO Separator
separated env close what p = do
  q <- space env p
  c <- byteAt env q
  if
      | c == 0x2c -> Comma <$> space env (q `plusPtr` 1)
      | c == close -> pure (Close (q `plusPtr` 1))
      | otherwise -> expected env q what
{-# INLINE separated #-}

-- | Find the closing quote of a string, starting after the opening one: the answer's offset is that of the
-- closing quote. Contents with escapes or bytes beyond ASCII are not checked yet.
--
-- [Cost]: O(bytes), a vector at a time.
closeString :: Env -> Ptr Word8 -> IO Answer
closeString env p = do
  let left = envEnd env `minusPtr` p
  a <- scanString (envLevel env) p (if left > sliceSize then p `plusPtr` sliceSize else envEnd env)
  if answerStatus a == 0 then pure a else closeLong env p a
{-# INLINE closeString #-}

closeLong :: Env -> Ptr Word8 -> Answer -> IO Answer
closeLong env start = go start
  where
    go p a
      | answerStatus a == 0 = pure (fromIntegral (at `minusPtr` start) `unsafeShiftL` 8 .|. a .&. 0x60)
      | answerStatus a == 2 && envEnd env `minusPtr` p > sliceSize = do
        let left = envEnd env `minusPtr` at
        b <- scanString (envLevel env) at (if left > sliceSize then at `plusPtr` sliceSize else envEnd env)
        go at (b .|. (a .&. 0x60))
      | answerStatus a == 2 = do
        checkString env start (envEnd env)
        failAt env (envEnd env) Truncated
      | otherwise = do
        checkString env start at
        failAt env at ControlCharacter
      where
        at = p `plusPtr` answerOffset a
{-# NOINLINE closeLong #-}

-- | Check the contents of a string.
--
-- [Cost]: O(bytes).
checkString :: Env -> Ptr Word8 -> Ptr Word8 -> IO ()
checkString env start close = go start
  where
    go p
      | p >= close = pure ()
      | otherwise = do
        let stop = if close `minusPtr` p > sliceSize then p `plusPtr` sliceSize else close
        a <- checkContents (envLevel env) p stop
        let at = p `plusPtr` answerOffset a
        if
            | answerStatus a == 0 -> go at
            | answerStatus a == 2 && stop < close -> go at
            | otherwise -> refuseContents env at close (answerStatus a)
{-# NOINLINE checkString #-}

-- | Fail because of the byte at the first address in a string whose closing quote is at the second.
refuseContents :: Env -> Ptr Word8 -> Ptr Word8 -> Int -> IO b
refuseContents env at close status
  | status == 4 = failAt env at BadEscape
  | status == 5 = failAt env at LoneSurrogate
  | status == 6 = failAt env at InvalidUtf8
  | close >= envEnd env = failAt env (envEnd env) Truncated
  | otherwise = do
    c <- peek at
    failAt env at $
      if
          | c /= 0x5c -> InvalidUtf8
          | close `minusPtr` at >= 6 -> LoneSurrogate
          | otherwise -> BadEscape
{-# NOINLINE refuseContents #-}

-- | Skip a value. It is checked as if it were decoded.
--
-- [Cost]: O(bytes).
skipValue :: Env -> Ptr Word8 -> IO (Ptr Word8)
skipValue env p
  | p >= envEnd env = failAt env (envEnd env) Truncated
  | otherwise =
    peek p >>= \case
      0x22 -> skipString env (p `plusPtr` 1)
      0x7b -> container 1
      0x5b -> container 0
      0x74 -> literal "true"
      0x66 -> literal "false"
      0x6e -> literal "null"
      c
        | c == 0x2d || c - 0x30 < 10 -> skipNumber env p
        | otherwise -> failAt env p (Expected "a value")
  where
    container kind = do
      depth <- readByteArray (envWords env) depthWord
      when (depth >= envDepth env) (failAt env p (TooDeep (envDepth env)))
      writeByteArray (envWords env) 3 (kind :: Int)
      writeByteArray (envWords env) 4 (1 :: Int)
      writeByteArray (envWords env) 5 (envDepth env - depth)
      writeByteArray (envWords env) 6 (envNumber env)
      -- The kernel numbers levels from 1.
      writeByteArray (envWords env) 8 (if kind == 1 then 2 else 0 :: Int)
      skipOpen env (p `plusPtr` 1)
    literal word = go p word
      where
        go q [] = pure q
        go q (x : xs) = do
          c <- byteAt env q
          if fromIntegral c == fromEnum x then go (q `plusPtr` 1) xs else expected env q word
{-# NOINLINE skipValue #-}

skipString :: Env -> Ptr Word8 -> IO (Ptr Word8)
skipString env p = do
  a <- closeString env p
  let close = p `plusPtr` answerOffset a
  if isPlain a then pure () else checkString env p close
  pure (close `plusPtr` 1)

skipNumber :: Env -> Ptr Word8 -> IO (Ptr Word8)
skipNumber env p = do
  let most = envNumber env + 1
      end = if envEnd env `minusPtr` p > most then p `plusPtr` most else envEnd env
  a <- scanNumber p end (envWords env)
  let at = p `plusPtr` answerOffset a
  if
      | at `minusPtr` p >= most -> failAt env p (NumberTooLong (envNumber env))
      | answerStatus a /= 0 -> failAt env at (statusReason env (answerStatus a))
      | otherwise -> pure at

-- | Skip up to the closing bracket, slice by slice.
skipOpen :: Env -> Ptr Word8 -> IO (Ptr Word8)
skipOpen env = go
  where
    go p = do
      a <- skipRest (envLevel env) p (envEnd env) (envWords env)
      let at = p `plusPtr` answerOffset a
      case answerStatus a of
        0 -> pure at
        1 -> go at
        2 -> skipString env (at `plusPtr` 1) >>= go
        status -> failAt env at (statusReason env status)

-- | The reason for a kernel's status.
statusReason :: Env -> Int -> Reason
statusReason env = \case
  3 -> ControlCharacter
  4 -> BadEscape
  5 -> LoneSurrogate
  6 -> InvalidUtf8
  7 -> Truncated
  8 -> Expected "a digit"
  9 -> Expected "a value"
  10 -> Expected "a key"
  11 -> Expected "a key or '}'"
  12 -> Expected "':'"
  13 -> Expected "',' or ']'"
  14 -> Expected "',' or '}'"
  15 -> Expected "true"
  16 -> Expected "false"
  17 -> Expected "null"
  18 -> TooDeep (envDepth env)
  19 -> NumberTooLong (envNumber env)
  20 -> Expected "no digit after a leading zero"
  _ -> Expected "a value or ']'"

-- | Decode a text, which is one value, with the kernels of this instruction set.
--
-- [Cost]: the decoder's.
-- [Throws]: what the decoder's functions throw.
runText :: CInt -> Limits -> Decoder a -> ByteString -> IO (Either Malformed a)
runText level limits d text = attempt level limits d text >>= either throwIO pure
{-# INLINE runText #-}

-- | As 'runText', as a pure value. An exception that interrupts its evaluation does not become the value: the next
-- evaluation decodes from the start; see Note [Interrupted decoding].
--
-- [Cost]: the decoder's.
runPure :: CInt -> Limits -> Decoder a -> ByteString -> Either Malformed a
runPure level limits d text = unsafePure go
  where
    go = attempt level limits d text >>= either again' pure
    again' e = do
      me <- myThreadId
      throwTo me e
      go
{-# INLINE runPure #-}

-- Note [Interrupted decoding]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- A decoder fails by throwing 'Failed', so 'attempt' needs a handler, and a handler rethrows every other exception
-- synchronously. In a thunk that is wrong for an asynchronous exception: GHC updates a thunk to rethrow what was thrown
-- synchronously in it, so after @timeout 1000 (evaluate decoded)@ every later use of @decoded@ would throw that
-- time-out. 'throwTo' to the own thread suspends the thunk instead (documentation of "Control.Exception"). When it is entered
-- again, it continues after the 'throwTo' and decodes from the start. An exception that the decoder's own functions
-- threw is thrown again by that second run.

attempt :: CInt -> Limits -> Decoder a -> ByteString -> IO (Either SomeException (Either Malformed a))
attempt level limits d text = do
  let (input, offset, size) = ByteString.toForeignPtr text
      start = foreignAddress input `plusPtr` offset
      most = max 0 (limitSize limits)
      end = start `plusPtr` min size most
      -- No text is deeper than it is long.
      levels = min (limitDepth limits) size
  words_ <- newByteArray (8 * (10 + max 0 levels `quot` 64))
  writeByteArray words_ depthWord (0 :: Int)
  keys <- newKeyCache
  let env =
        Env
          { envEnd = end,
            envStart = start,
            envWords = words_,
            envDepth = limitDepth limits,
            envNumber = min (sliceSize - 1) (limitNumber limits),
            envLevel = level,
            envDuplicates = limitDuplicates limits,
            envNonFinite = limitNonFinite limits,
            envExponent = limitExponent limits,
            envInput = input,
            envKeys = keys
          }
      whole = do
        when (bom `ByteString.isPrefixOf` text) (failAt env start ByteOrderMark)
        p <- space env start
        At q x <- runDecoder d env p
        r <- space env q
        if
            | r < end -> failAt env r TrailingBytes
            | size > most -> failAt env end (TooLarge most)
            | otherwise -> pure (Right (Right x))
  result <-
    whole `catch` \e -> pure $ case fromException e of
      Nothing -> Left e
      Just (Failed at reason) -> Right . Left $ case reason of
        Truncated | size > most -> Malformed most (pathTo text most) (TooLarge most)
        _ -> Malformed at (pathTo text at) reason
  touchForeignPtr input
  pure result
  where
    bom = ByteString.pack [0xef, 0xbb, 0xbf]
{-# INLINE attempt #-}
