{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE MultiWayIf #-}

-- |
-- Module      : Heddle.Json.Internal.Object
-- Description : Decoders of maps and of sums
-- Stability   : internal; exempt from the version policy
--
-- "Heddle.Json.Decode" has the ones for users.
--
-- Cost: each function's.
-- Owner: the thread that decodes.
module Heddle.Json.Internal.Object
  ( -- * Maps
    FromKey (..),
    textMap,
    mapOf,
    foldMembers,

    -- * Sums
    oneOf,
    tagged,
    singleKey,
    twoElements,
  )
where

import Control.Monad (when)
import Control.Monad.Primitive (RealWorld)
import Data.Bits (unsafeShiftR, xor, (.&.))
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (toForeignPtr)
import Data.Functor.Identity (Identity (..))
import Data.Int (Int16, Int32, Int64, Int8)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Primitive.Array (MutableArray, arrayFromListN, indexArray, newArray, readArray, writeArray)
import Data.Primitive.ByteArray (indexByteArray)
import Data.Primitive.MutVar (readMutVar, writeMutVar)
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Text.Lazy qualified as Lazy
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.ForeignPtr (touchForeignPtr)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff)
import Heddle.Bytes.TextArray (Unit, textArray)
import Heddle.Bytes.Utf8 qualified as Utf8 (encode)
import Heddle.Json.Internal.Decoder
import Heddle.Json.Internal.Foreign.Read
import Heddle.Json.Internal.Key
import Heddle.Json.Internal.Scalar
import Heddle.Json.Internal.String
import Heddle.Json.Malformed (Malformed (..), Reason (..), showReason)
import Heddle.Json.Options (Duplicates (..), defaultLimits)
import Heddle.Prim.AddrState (At (..))
import Heddle.Prim.Buffer (foreignAddress)
import Heddle.Prim.Cpu (level, levelCode)
import Numeric.Natural (Natural)

-- | The types of a map's keys.
class FromKey a where
  -- | Convert a key, or return the reason why it is refused.
  fromKey :: Text -> Either String a

instance FromKey Text where
  fromKey = Right

instance FromKey Lazy.Text where
  fromKey = Right . Lazy.fromStrict

instance FromKey String where
  fromKey = Right . Text.unpack

instance FromKey Char where
  fromKey t = case Text.unpack t of
    [c] -> Right c
    _ -> Left "expected a key of one character"

instance FromKey Bool where
  fromKey t
    | t == Text.pack "true" = Right True
    | t == Text.pack "false" = Right False
    | otherwise = Left "expected the key true or false"

-- Integers are written as in JSON, without white space.
instance FromKey Int where fromKey = numberKey int

instance FromKey Int8 where fromKey = numberKey int8

instance FromKey Int16 where fromKey = numberKey int16

instance FromKey Int32 where fromKey = numberKey int32

instance FromKey Int64 where fromKey = numberKey int64

instance FromKey Word where fromKey = numberKey word

instance FromKey Word8 where fromKey = numberKey word8

instance FromKey Word16 where fromKey = numberKey word16

instance FromKey Word32 where fromKey = numberKey word32

instance FromKey Word64 where fromKey = numberKey word64

instance FromKey Integer where fromKey = numberKey integer

instance FromKey Natural where fromKey = numberKey natural

-- | A number without white space, @NaN@, @Infinity@ or @-Infinity@.
instance FromKey Double where
  fromKey key = maybe (numberKey double key) Right (lookup key names)
    where
      names = [(Text.pack "NaN", 0 / 0), (Text.pack "Infinity", 1 / 0), (Text.pack "-Infinity", -1 / 0)]

instance FromKey a => FromKey (Identity a) where fromKey = fmap Identity . fromKey

numberKey :: Decoder a -> Text -> Either String a
numberKey d key = case runPure (levelCode level) defaultLimits d (Utf8.encode key) of
  Right x
    -- The decoder of a whole text skips it around the value, and two keys must not be one number by that.
    | Text.any (`elem` [' ', '\t', '\n', '\r']) key -> refused "expected no white space"
    | otherwise -> Right x
  Left malformed -> refused (showReason (malformedReason malformed))
  where
    refused why = Left ("the key " <> show key <> ": " <> why)

-- | Fold over the members with an action that gets the key's address, the key and the value.
membersFrom :: state -> (Env -> Ptr Word8 -> Text -> a -> state -> IO state) -> Decoder a -> Env -> Ptr Word8 -> IO (At state)
membersFrom start step d env p = do
  c <- byteAt env p
  if c /= 0x7b
    then wrongKind env p "an object"
    else deeper env p $ \first -> do
      c' <- byteAt env first
      if
          | c' == 0x7d -> pure (At (first `plusPtr` 1) start)
          | c' /= 0x22 -> expected env first "a key or '}'"
          | otherwise ->
            let go q !state = do
                  At v key <- keyFrom env q
                  At r x <- runDecoder d env v
                  state' <- step env q key x state
                  separated env 0x7d "',' or '}'" r >>= \case
                    Close end -> pure (At end state')
                    Comma next -> do
                      c'' <- byteAt env next
                      if c'' == 0x22 then go next state' else expected env next "a key"
             in go first start
{-# INLINE membersFrom #-}

-- | A strict left fold over the members. It does not check for duplicate keys.
--
-- [Cost]: constant memory besides the state; equal short keys of one text share their memory.
foldMembers :: (state -> Text -> a -> state) -> state -> Decoder a -> Decoder state
foldMembers f start d = decoder (membersFrom start (\_ _ key x state -> pure $! f state key x) d)
{-# INLINE foldMembers #-}

-- | A map with the keys as texts.
--
-- [Cost]: O(n) if the keys ascend, else O(n log n); equal short keys of one text share their memory.
textMap :: Decoder a -> Decoder (Map Text a)
textMap = mapBy (\_ _ key -> pure key)
{-# INLINE textMap #-}

-- | A map with keys of another type.
--
-- [Cost]: as 'textMap'.
mapOf :: (Ord k, FromKey k) => Decoder a -> Decoder (Map k a)
mapOf = mapBy $ \env at key -> case fromKey key of
  Right !k -> pure k
  Left why -> failAt env at (Refused why)
{-# INLINE mapOf #-}

data Building k a
  = -- All keys have ascended so far; the last one is first.
    Ascending [(k, a)]
  | Tree !(Map k a)

mapBy :: Ord k => (Env -> Ptr Word8 -> Text -> IO k) -> Decoder a -> Decoder (Map k a)
mapBy convert d = finish <$> decoder (membersFrom (Ascending []) step d)
  where
    finish = \case
      Ascending members -> Map.fromDistinctDescList members
      Tree m -> m
    step env at key x state = do
      k <- convert env at key
      case state of
        Ascending [] -> pure (Ascending [(k, x)])
        Ascending members@((k', _) : _)
          | k > k' -> pure (Ascending ((k, x) : members))
          | otherwise -> insert env at key k x (Map.fromDistinctDescList members)
        Tree m -> insert env at key k x m
    insert env at key k x m
      | Map.size more > Map.size m = pure (Tree more)
      | otherwise = case envDuplicates env of
        DuplicatesRefused -> failAt env at (DuplicateKey key)
        DuplicatesFirst -> pure (Tree m)
        DuplicatesLast -> pure (Tree more)
      where
        !more = Map.insert k x m
{-# INLINE mapBy #-}

-- | Read a key; returns where its value begins.
keyFrom :: Env -> Ptr Word8 -> IO (At Text)
keyFrom env p = do
  let from = p `plusPtr` 1
  a <- closeString env from
  key <- sharedKey env from a
  q <- space env (from `plusPtr` (answerOffset a + 1))
  c <- byteAt env q
  if c /= 0x3a
    then expected env q "':'"
    else do
      v <- space env (q `plusPtr` 1)
      pure (At v key)

-- | The key, or an equal one from the cache.
sharedKey :: Env -> Ptr Word8 -> Answer -> IO Text
sharedKey env p a
  | isPlain a && len <= 64 = do
    cache <- theCache env
    i <- bytesHash p len
    old <- readArray cache i
    same <- agrees p len old
    if same then pure old else textContents env p a >>= store cache i
  | not (isPlain a) && len <= 256 = do
    cache <- theCache env
    i <- bytesHash p len
    old <- readArray cache i
    new <- textContents env p a
    if new == old then pure old else store cache i new
  | otherwise = textContents env p a
  where
    len = answerOffset a
    store cache i key = writeArray cache i key >> pure key

theCache :: Env -> IO (MutableArray RealWorld Text)
theCache env =
  readMutVar (envKeys env) >>= \case
    Just cache -> pure cache
    Nothing -> do
      cache <- newArray 256 Text.empty
      writeMutVar (envKeys env) (Just cache)
      pure cache

-- | Do these ASCII bytes equal the text?
agrees :: Ptr Word8 -> Int -> Text -> IO Bool
agrees p len key
  | units /= len = pure False
  | otherwise = go 0
  where
    (array, offset, units) = textArray key
    go i
      | i >= len = pure True
      | otherwise = do
        c <- peekByteOff p i :: IO Word8
        if fromIntegral c == (fromIntegral (indexByteArray array (offset + i) :: Unit) :: Int) then go (i + 1) else pure False

bytesHash :: Ptr Word8 -> Int -> IO Int
bytesHash p len = go 0 0xcbf29ce484222325
  where
    go :: Int -> Word64 -> IO Int
    go !i !h
      | i >= len = pure (fromIntegral ((h * 0x9e3779b97f4a7c15) `unsafeShiftR` 40) .&. 255)
      | otherwise = do
        c <- peekByteOff p i :: IO Word8
        go (i + 1) ((h `xor` fromIntegral c) * 0x100000001b3)

-- | The number of the key that the string beginning here equals, or -1; returns where the string ends.
choiceFrom :: Keys -> Env -> Ptr Word8 -> IO (At Int)
choiceFrom names env p = do
  c <- byteAt env p
  when (c /= 0x22) (wrongKind env p "a string")
  let from = p `plusPtr` 1
  a <- closeString env from
  let close = from `plusPtr` answerOffset a
  i <-
    if hasEscapes a
      then do
        name <- unescaped env from (answerOffset a)
        let (input, offset, len) = ByteString.toForeignPtr (ByteString.cons 0x22 (ByteString.snoc name 0x22))
        i <- findKey names (foreignAddress input `plusPtr` offset) (len - 2)
        touchForeignPtr input
        pure i
      else do
        when (hasHigh a) (checkString env from close)
        findKey names p (answerOffset a)
  pure (At (close `plusPtr` 1) i)

noChoice :: Env -> Ptr Word8 -> [Key] -> IO b
noChoice env p names =
  failAt env p (Refused ("expected one of " <> unwords (map (show . keyText) names)))

-- | A string that is one of these keys.
--
-- [Cost]: a table lookup. Define the decoder once, since that builds the table.
oneOf :: [(Key, a)] -> Decoder a
oneOf choices = decoder $ \env p -> do
  At q i <- choiceFrom names env p
  if i < 0 then noChoice env p (map fst choices) else let !x = indexArray values i in pure (At q x)
  where
    !names = newKeys (map fst choices)
    !values = arrayFromListN (length choices) (map snd choices)
{-# NOINLINE oneOf #-}

-- | An object with a key whose value selects the decoder for the whole object, that key included.
-- Only the selected decoder can find the key duplicated, if it also asks for it by
-- @required tag skip@, as derived ones do.
--
-- [Cost]: the key's value is read twice, and so is all that precedes the key, at each level of such
-- objects; with 'DuplicatesLast' the whole object. Define the decoder once.
tagged :: Key -> [(Key, Decoder a)] -> Decoder a
tagged tag choices = decoder $ \env p -> do
  c <- byteAt env p
  if c /= 0x7b
    then wrongKind env p "an object"
    else do
      At _ i <- deeper env p (tagFrom tags (keyText tag) names (map fst choices) env)
      runDecoder (indexArray decoders i) env p
  where
    !tags = newKeys [tag]
    !names = newKeys (map fst choices)
    !decoders = arrayFromListN (length choices) (map snd choices)
{-# NOINLINE tagged #-}

-- The number of the decoder that an object's tag names. If the last of equal keys counts, it looks at all keys.
tagFrom :: Keys -> Text -> Keys -> [Key] -> Env -> Ptr Word8 -> IO (At Int)
tagFrom tag tagName names choices env = go True Nothing
  where
    go begun found p = do
      c <- byteAt env p
      if
          | c == 0x7d && begun -> failAt env p (MissingKey tagName)
          | c /= 0x22 -> expected env p (if begun then "a key or '}'" else "a key")
          | otherwise -> do
            At k i <- choiceFrom tag env p
            q <- space env k
            c' <- byteAt env q
            when (c' /= 0x3a) (expected env q "':'")
            v <- space env (q `plusPtr` 1)
            if i == 0 && envDuplicates env /= DuplicatesLast
              then choice v
              else skipValue env v >>= rest (if i == 0 then Just v else found)
    rest found p =
      separated env 0x7d "',' or '}'" p >>= \case
        Comma q -> go False found q
        Close q -> maybe (failAt env (q `plusPtr` (-1)) (MissingKey tagName)) choice found
    choice v = do
      At q i <- choiceFrom names env v
      if i < 0 then noChoice env v choices else pure (At q i)
{-# NOINLINE tagFrom #-}

-- | An object with a single key, which selects the decoder of its value.
--
-- [Cost]: a table lookup. Define the decoder once.
singleKey :: [(Key, Decoder a)] -> Decoder a
singleKey choices = decoder $ \env p -> do
  c <- byteAt env p
  if c /= 0x7b
    then wrongKind env p "an object"
    else deeper env p $ \k -> do
      c' <- byteAt env k
      when (c' /= 0x22) (if c' == 0x7d then failAt env k (Refused "expected an object of one key") else expected env k "a key or '}'")
      At k' i <- choiceFrom names env k
      when (i < 0) (noChoice env k (map fst choices))
      q <- space env k'
      c'' <- byteAt env q
      when (c'' /= 0x3a) (expected env q "':'")
      v <- space env (q `plusPtr` 1)
      At r x <- runDecoder (indexArray decoders i) env v
      separated env 0x7d "',' or '}'" r >>= \case
        Close end -> pure (At end x)
        Comma next -> do
          c3 <- byteAt env next
          if c3 == 0x22 then failAt env next (Refused "expected an object of one key") else expected env next "a key"
  where
    !names = newKeys (map fst choices)
    !decoders = arrayFromListN (length choices) (map snd choices)
{-# NOINLINE singleKey #-}

-- | An array of two elements. The first, a string, selects the decoder of the second.
--
-- [Cost]: a table lookup. Define the decoder once.
twoElements :: [(Key, Decoder a)] -> Decoder a
twoElements choices = decoder $ \env p -> do
  c <- byteAt env p
  if c /= 0x5b
    then wrongKind env p "an array"
    else deeper env p $ \v -> do
      At q i <- choiceFrom names env v
      when (i < 0) (noChoice env v (map fst choices))
      separated env 0x5d "',' or ']'" q >>= \case
        Close end -> failAt env (end `plusPtr` (-1)) (Refused two)
        Comma w -> do
          At r x <- runDecoder (indexArray decoders i) env w
          separated env 0x5d "',' or ']'" r >>= \case
            Close end -> pure (At end x)
            Comma next -> skipValue env next >> failAt env next (Refused two)
  where
    !names = newKeys (map fst choices)
    !decoders = arrayFromListN (length choices) (map snd choices)
    two = "expected an array of two elements"
{-# NOINLINE twoElements #-}
