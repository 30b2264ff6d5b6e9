{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.OpenFlow.Wire
-- Description : One description of a structure, for reading and for writing
-- Stability   : hidden; "Heddle.OpenFlow" exports what is public
--
-- A 'Codec' describes bytes once: it is a reader and a writer that agree by construction, so
-- that writing what was read gives the same bytes.
--
-- Invariant: a reader is total and never looks past its input; a writer fills exactly the size
-- that it announces.
-- Cost: reading allocates the result; writing a few words for each field.
-- Owner: values; nothing is shared.
module Heddle.OpenFlow.Wire
  ( -- * Reading
    Get (..),
    DecodeError (..),
    runGet,
    failGet,
    getBytes,
    getRest,
    getWord16,
    skipBytes,
    isolated,
    many0,

    -- * Writing
    Put (..),
    EncodeError (..),
    putSize,
    runPut,
    refuse,
    putBytes,
    putWord8,
    putWord16,
    putZeros,
    putSized,

    -- * Both
    Codec (..),
    (=.),
    codecOf,
    word8,
    word16,
    word32,
    word64,
    padding,
    fixedBytes,
    restBytes,
    text,
    listOf,
    mapped,
    checked,
    lengthPrefixed,

    -- * Sums
    Case,
    caseOf,
    tagged,
    chooseGet,
    choosePut,
  )
where

import Control.Monad (void)
import Data.Bits (shiftL, shiftR, (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Internal qualified as B (unsafeCreate)
import Data.ByteString.Unsafe qualified as B (unsafeDrop, unsafeIndex, unsafeTake, unsafeUseAsCStringLen)
import Data.Foldable (asum)
import Data.IntMap.Strict qualified as IntMap
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (poke, pokeByteOff)

-- | Why bytes are no message. The number is how many bytes were left there.
data DecodeError = DecodeError
  { decodeWhat :: !String,
    decodeLeft :: !Int
  }
  deriving stock (Eq, Show)

-- | A reader: takes bytes from the front.
newtype Get a = Get {unGet :: forall r. ByteString -> (DecodeError -> r) -> (a -> ByteString -> r) -> r}

instance Functor Get where
  fmap f (Get g) = Get (\b no yes -> g b no (yes . f))
  {-# INLINE fmap #-}

instance Applicative Get where
  pure a = Get (\b _ yes -> yes a b)
  {-# INLINE pure #-}
  Get f <*> Get g = Get (\b no yes -> f b no (\h b' -> g b' no (yes . h)))
  {-# INLINE (<*>) #-}

instance Monad Get where
  Get g >>= k = Get (\b no yes -> g b no (\a b' -> unGet (k a) b' no yes))
  {-# INLINE (>>=) #-}

-- | Read all of the bytes.
--
-- [Cost]: O(n).
runGet :: Get a -> ByteString -> Either DecodeError a
runGet (Get g) bytes = g bytes Left $ \a left ->
  if B.null left then Right a else Left (DecodeError "bytes after the end" (B.length left))

failGet :: String -> Get a
failGet what = Get (\b no _ -> no (DecodeError what (B.length b)))

getBytes :: Int -> Get ByteString
getBytes n = Get $ \b no yes ->
  if n < 0 || n > B.length b then no (DecodeError "ends too early" (B.length b)) else yes (B.unsafeTake n b) (B.unsafeDrop n b)
{-# INLINE getBytes #-}

getRest :: Get ByteString
getRest = Get (\b _ yes -> yes b B.empty)

skipBytes :: Int -> Get ()
skipBytes n = void (getBytes n)

getWord16 :: Get Word16
getWord16 = (\b -> fromIntegral (B.unsafeIndex b 0) `shiftL` 8 .|. fromIntegral (B.unsafeIndex b 1)) <$> getBytes 2
{-# INLINE getWord16 #-}

bigEndian :: Int -> Get Word64
bigEndian n = B.foldl' (\w b -> w `shiftL` 8 .|. fromIntegral b) 0 <$> getBytes n
{-# INLINE bigEndian #-}

-- | Read the next bytes, this many, with a reader that must use them all.
isolated :: Int -> Get a -> Get a
isolated n (Get g) = do
  inner <- getBytes n
  Get $ \b no yes -> g inner no $ \a left ->
    if B.null left then yes a b else no (DecodeError "bytes after the end of a part" (B.length left))

-- | Items until the input's end. An item that takes no bytes is an error, so that this ends.
many0 :: Get a -> Get [a]
many0 (Get g) = Get $ \b0 no yes ->
  let go items b
        | B.null b = yes (reverse items) b
        | otherwise = g b no $ \a b' ->
          if B.length b' >= B.length b then no (DecodeError "an item without bytes" (B.length b)) else go (a : items) b'
   in go [] b0

-- | Why a message cannot be written.
data EncodeError
  = -- | More than 65,535 bytes, the most that a length of 16 bits can say.
    TooLong !Int
  | -- | The protocol's version has no form for this.
    Unsupported !String
  deriving stock (Eq, Show)

-- | A writer: its size, and the stores.
data Put
  = Put !Int !(Ptr Word8 -> IO ())
  | Refused !EncodeError

instance Semigroup Put where
  Refused e <> _ = Refused e
  _ <> Refused e = Refused e
  Put n f <> Put m g = Put (n + m) (\p -> f p >> g (p `plusPtr` n))
  {-# INLINE (<>) #-}

instance Monoid Put where
  mempty = Put 0 (\_ -> pure ())

putSize :: Put -> Int
putSize = \case
  Put n _ -> n
  Refused _ -> 0

runPut :: Put -> Either EncodeError ByteString
runPut = \case
  Refused e -> Left e
  Put n f -> Right (B.unsafeCreate n f)

refuse :: String -> Put
refuse = Refused . Unsupported

putBytes :: ByteString -> Put
putBytes b = Put (B.length b) $ \p -> B.unsafeUseAsCStringLen b $ \(from, n) -> copyBytes p (castPtr from) n

putWord8 :: Word8 -> Put
putWord8 w = Put 1 (`poke` w)
{-# INLINE putWord8 #-}

putWord16 :: Word16 -> Put
putWord16 = putBig 2 . fromIntegral
{-# INLINE putWord16 #-}

putBig :: Int -> Word64 -> Put
putBig n w = Put n (\p -> mapM_ (\i -> pokeByteOff p i (fromIntegral (w `shiftR` (8 * (n - 1 - i))) :: Word8)) [0 .. n - 1])
{-# INLINE putBig #-}

putZeros :: Int -> Put
putZeros n = Put n (\p -> fillBytes p 0 n)

-- | A prefix, a length of 16 bits, and the rest; the length counts this many bytes more than the rest.
putSized :: Put -> Int -> Put -> Put
putSized before more = \case
  Refused e -> Refused e
  rest
    | n > 0xffff -> Refused (TooLong n)
    | otherwise -> before <> putWord16 (fromIntegral n) <> rest
    where
      n = putSize rest + more

-- | Reads an @a@; writes the @s@ that the @a@ is a part of.
data Codec s a = Codec
  { codecGet :: !(Get a),
    codecPut :: !(s -> Put)
  }

instance Functor (Codec s) where
  fmap f (Codec g p) = Codec (f <$> g) p

instance Applicative (Codec s) where
  pure a = Codec (pure a) (const mempty)
  Codec f p <*> Codec g q = Codec (f <*> g) (\s -> p s <> q s)

infixl 5 =.

-- | A part, and where the whole has it.
(=.) :: (s -> b) -> Codec b a -> Codec s a
part =. Codec g p = Codec g (p . part)

codecOf :: Get a -> (a -> Put) -> Codec a a
codecOf = Codec

word8 :: Codec Word8 Word8
word8 = Codec (fromIntegral <$> bigEndian 1) putWord8

word16 :: Codec Word16 Word16
word16 = Codec getWord16 putWord16

word32 :: Codec Word32 Word32
word32 = Codec (fromIntegral <$> bigEndian 4) (putBig 4 . fromIntegral)

word64 :: Codec Word64 Word64
word64 = Codec (bigEndian 8) (putBig 8)

-- | Bytes that mean nothing: skipped, written as zeros.
padding :: Int -> Codec s ()
padding n = Codec (skipBytes n) (const (putZeros n))

fixedBytes :: Int -> Codec ByteString ByteString
fixedBytes n = Codec (getBytes n) $ \b ->
  if B.length b == n then putBytes b else refuse (show (B.length b) ++ " bytes where there are " ++ show n)

restBytes :: Codec ByteString ByteString
restBytes = Codec getRest putBytes

-- | Text of a fixed size, filled up with zeros.
text :: Int -> Codec ByteString ByteString
text n = Codec (B.dropWhileEnd (== 0) <$> getBytes n) $ \b ->
  if B.length b <= n then putBytes b <> putZeros (n - B.length b) else refuse ("a text of more than " ++ show n ++ " bytes")

-- | As many as there are.
listOf :: Codec a a -> Codec [a] [a]
listOf (Codec g p) = Codec (many0 g) (foldMap p)

mapped :: (a -> b) -> (b -> a) -> Codec a a -> Codec b b
mapped to from (Codec g p) = Codec (to <$> g) (p . from)

-- | A mapping that is partial in both directions.
checked :: (a -> Either String b) -> (b -> Either String a) -> Codec a a -> Codec b b
checked to from (Codec g p) = Codec (g >>= either failGet pure . to) (either refuse p . from)

-- | A length of 16 bits that counts itself and what stands before it (@before@ bytes), then
-- the rest of the structure.
lengthPrefixed :: Int -> Codec a a -> Codec a a
lengthPrefixed before (Codec g p) = Codec (getWord16 >>= \n -> isolated (fromIntegral n - before - 2) g) (putSized mempty (before + 2) . p)

-- | A constructor of a sum: its number, how it is built and taken apart.
data Case s = Case !Int !(Get s) !(s -> Maybe Put)

caseOf :: Int -> (a -> s) -> (s -> Maybe a) -> Codec a a -> Case s
caseOf n build match (Codec g p) = Case n (build <$> g) (fmap p . match)

-- | The reader of a number; 'Nothing' for a number that no case has.
chooseGet :: [Case s] -> Int -> Maybe (Get s)
chooseGet cases = (`IntMap.lookup` table)
  where
    table = IntMap.fromList [(n, g) | Case n g _ <- cases]

-- | The number and the bytes of a value.
choosePut :: [Case s] -> s -> Maybe (Int, Put)
choosePut cases s = asum [(,) n <$> match s | Case n _ match <- cases]

-- | A type and a length of 16 bits each, then the case's content; what has an unknown type is kept as it is.
tagged :: String -> [Case s] -> (Word16 -> ByteString -> s) -> (s -> Maybe (Word16, ByteString)) -> Codec s s
tagged what cases raw unraw = Codec get put
  where
    get = do
      tag <- getWord16
      size <- getWord16
      if size < 4
        then failGet (what ++ " of less than 4 bytes")
        else isolated (fromIntegral size - 4) $ case choose (fromIntegral tag) of
          Just g -> g
          Nothing -> raw tag <$> getRest
    choose = chooseGet cases
    put s = case unraw s of
      Just (tag, bytes) -> framed (fromIntegral tag) (putBytes bytes)
      Nothing -> maybe (refuse (what ++ " that this version does not have")) (uncurry framed) (choosePut cases s)
    framed tag = putSized (putWord16 (fromIntegral (tag :: Int))) 4
