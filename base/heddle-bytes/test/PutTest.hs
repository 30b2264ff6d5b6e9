{-# LANGUAGE OverloadedStrings #-}

-- | All ways of running a Put give the same bytes, and memory that an exception leaves behind is freed.
module PutTest
  ( tests,
  )
where

import Control.Concurrent (forkIO, killThread, newEmptyMVar, putMVar, readMVar, takeMVar, tryPutMVar, tryTakeMVar, yield)
import Control.Monad (forM_, replicateM_, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Builder qualified as Builder
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Lazy qualified as Lazy
import Data.ByteString.Short qualified as Short
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64, Int8)
import Data.String (fromString)
import Data.Text qualified as Text
import Data.Text.Encoding qualified as Text
import Data.Word (Word64, Word8)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Foreign.Storable (poke)
import Heddle.Bytes.Internal.Memory (memoriesCounted)
import Heddle.Bytes.Put
import Heddle.Bytes.Write
import Heddle.Prim.Atomic (modifyRef, newRef, readRef)
import Heddle.Prim.Buffer (newBuffer, withBuffer)
import Heddle.Prim.Clock (EpochSeconds (..))
import Heddle.Prim.Exception (Exception, SomeException, evaluate, finally, onException, throw, throwIO, try)
import Heddle.Testkit.Guarded (guarded)
import Heddle.Testkit.Heap (allocatedBy)
import Heddle.Testkit.Judging (whenOptimised)
import Heddle.Testkit.Written (writtenWithin)
import System.Directory (getTemporaryDirectory, removeFile)
import System.IO (hClose, openBinaryTempFile)
import System.Mem (performMajorGC)
import System.Timeout (timeout)
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (assertBool, assertEqual, testCase, (@?=))
import Test.Tasty.QuickCheck

-- | A piece of a document, and how it is put.
data Piece
  = Number Int
  | Character Char
  | Slice ByteString
  | LazySlice [ByteString]
  | ShortSlice ByteString
  | Characters String
  | AsText String
  | AsUtf8 String
  | Whole Integer
  | -- | A piece that promises more than it writes.
    Promising Int ByteString
  | FromBuilder [ByteString]
  | Double' Double
  deriving stock (Show)

putOf :: Piece -> Put
putOf = \case
  Number n -> write (decimal n <> char7 ';')
  Character c -> write (charUtf8 c)
  Slice b -> slice b
  LazySlice bs -> lazySlice (Lazy.fromChunks bs)
  ShortSlice b -> shortSlice (Short.toShort b)
  Characters s -> string s
  AsText s -> text (Text.pack s)
  AsUtf8 s -> utf8 (fromString s)
  Whole n -> integer n
  Promising more b -> write (writeAtMost (ByteString.length b + more) (copying b))
  FromBuilder bs -> fromBuilder (foldMap (\b -> Builder.byteString b <> Builder.intDec 7) bs)
  Double' x -> write (doubleShortest x)

bytesOf :: Piece -> ByteString
bytesOf = \case
  Number n -> Char8.pack (show n <> ";")
  Character c -> encoded [c]
  Slice b -> b
  LazySlice bs -> mconcat bs
  ShortSlice b -> b
  Characters s -> encoded s
  AsText s -> encoded s
  AsUtf8 s -> encoded s
  Whole n -> Char8.pack (show n)
  Promising _ b -> b
  FromBuilder bs -> mconcat [b <> "7" | b <- bs]
  Double' x -> toByteString (write (doubleShortest x))
  where
    encoded = Text.encodeUtf8 . Text.pack

copying :: ByteString -> Ptr Word8 -> IO (Ptr Word8)
copying b p = do
  forM_ (zip [0 ..] (ByteString.unpack b)) (\(i, x) -> poke (p `plusPtr` i) x)
  pure (p `plusPtr` ByteString.length b)

pieces :: Gen [Piece]
pieces = sized $ \size -> do
  count <- chooseInt (0, min 60 size)
  vectorOf count $
    frequency
      [ (4, Number <$> arbitrary),
        (4, Character <$> arbitrary),
        (4, Slice <$> shortBytes),
        (1, Slice <$> longBytes),
        (1, LazySlice <$> resize 5 (listOf shortBytes)),
        (2, ShortSlice <$> oneof [shortBytes, longBytes]),
        (2, Characters <$> arbitrary),
        (2, AsText <$> arbitrary),
        (1, AsText <$> longCharacters),
        (1, AsUtf8 <$> arbitrary),
        (1, Whole <$> arbitrary),
        (1, (\k -> Whole (7 ^ k)) <$> chooseInt (0, 3000)),
        (2, Promising <$> chooseInt (0, 70000) <*> shortBytes),
        (1, FromBuilder <$> resize 5 (listOf (oneof [shortBytes, longBytes]))),
        (1, Double' <$> arbitrary)
      ]

shortBytes, longBytes :: Gen ByteString
shortBytes = ByteString.pack <$> arbitrary
longBytes = ByteString.replicate <$> chooseInt (1000, 80000) <*> arbitrary

-- | Of one, two, three and four bytes, so that slices end everywhere between and within them.
longCharacters :: Gen String
longCharacters = do
  before <- resize 5 arbitrary
  cycled <- resize 6 (listOf1 (elements "a\233\12354\128512"))
  count <- chooseInt (100, 20000)
  pure (before <> take count (cycle cycled))

tests :: TestTree
tests =
  localOption (QuickCheckTests 400)
    . testGroup
      "Put"
    $ [ testProperty "chunking" $
          forAll pieces $ \ps -> ioProperty $ do
            let put = foldMap putOf ps
                expected = foldMap bytesOf ps
            drained <- drainedBy put
            pure $
              conjoin
                [ counterexample "toByteString" (toByteString put === expected),
                  counterexample "toLazyByteString" (Lazy.toStrict (toLazyByteString put) === expected),
                  counterexample "toBuilder" (Lazy.toStrict (Builder.toLazyByteString (toBuilder put)) === expected),
                  counterexample "fromBuilder" (toByteString (fromBuilder (toBuilder put)) === expected),
                  counterexample "drainTo" (drained === expected)
                ],
        testProperty "tryPutInto: exact" $
          forAll (resize 20 pieces) $ \ps -> forAll (chooseInt (-2, 2)) $ \off -> ioProperty $ do
            let expected = foldMap bytesOf ps
                size = max 0 (ByteString.length expected + off)
            found <- intoSize size (foldMap putOf ps)
            pure $ case found of
              Nothing -> ByteString.length expected > size
              Just written -> written == expected && ByteString.length expected <= size,
        testProperty "no chunk is empty" $
          forAll pieces $ \ps ->
            let chunks = Lazy.toChunks (toLazyByteString (foldMap putOf ps))
             in conjoin [counterexample (show (ByteString.length c)) (ByteString.length c > 0) | c <- chunks],
        testProperty "slices are read no further than they go" $
          forAll (oneof [ByteString.pack <$> resize 40 arbitrary, shortBytes]) $ \b -> ioProperty $ do
            found <- guarded b (\b' -> pure $! toByteString (slice b' <> write (bytes b')))
            pure (found === (b <> b, b <> b)),
        testCase "large results" $
          forM_ [32767, 32768, 32769, 65536, 1048575, 1048576, 1048577, 2097151, 2097152, 2097153, 4194305, 5000000] $ \size -> do
            let put = foldMap (const (write (char7 'x'))) [1 .. size]
            toByteString put @?= Char8.replicate size 'x',
        testCase "the memory of large results is freed" $ do
          settled 0
          -- Sizes that the compiler does not know, so that nothing is shared with what follows.
          sizes <- newRef [40000, 80000, 3000000, 5000000] >>= readRef
          let made = [toByteString (slice (Char8.replicate n 'y') <> write (char7 'z')) | n <- sizes]
          forM_ made $ \b -> Char8.last b @?= 'z'
          counted <- memoriesCounted
          assertBool (show counted) (counted >= 1)
          forM_ made $ \b -> Char8.head b @?= 'y'
          settled 0,
        testCase "the memory of writers that throw is freed" $ do
          replicateM_ 10 $ do
            r <- try (evaluate (toByteString (slice (Char8.replicate 3000000 'y') <> write (decimal (throw Unlucky :: Int)))))
            either (\Unlucky -> pure ()) (\_ -> fail "did not throw") r
          settled 0,
        testCase "the memory of writers that are killed is freed" $ do
          replicateM_ 10 $ do
            begun <- newEmptyMVar
            ended <- newEmptyMVar
            never <- newEmptyMVar
            let waiting p = putMVar begun () >> takeMVar never >> pure p
                whole = toByteString (slice (Char8.replicate 3000000 'y') <> write (writeAtMost 1 waiting))
            thread <- forkIO (void (evaluate whole) `finally` putMVar ended ())
            takeMVar begun
            killThread thread
            takeMVar ended
            putMVar never ()
          settled 0,
        testCase "collections keep the memory of many large results low" $ do
          settled 0
          most <- newRef (0 :: Int)
          forM_ [1 .. 300 :: Int] $ \i -> do
            let b = toByteString (slice (Char8.replicate 3000000 'y') <> write (decimal i))
            assertEqual "length" (3000000 + length (show i)) (ByteString.length b)
            counted <- memoriesCounted
            modifyRef most (\m -> (max m (fromIntegral counted), ()))
          found <- readRef most
          assertBool (show found <> " memories at once") (found < 100),
        testCase "if the sink throws nothing further is written" $ do
          calls <- newRef (0 :: Int)
          r <- try (drainTo (\_ _ -> modifyRef calls (\n -> (n + 1, ())) >> throwIO Unlucky) (foldMap (const (slice (Char8.replicate 1000 'x'))) [1 .. 1000 :: Int]))
          either (\Unlucky -> pure ()) (\() -> fail "did not throw") r
          readRef calls >>= (@?= 1),
        testCase "hPut: to a file" $ do
          folder <- getTemporaryDirectory
          (path, handle) <- openBinaryTempFile folder "heddle-put"
          let put = counting 20000 0 <> slice (Char8.replicate 100000 'x') <> counting 10 0
          hPut handle put
          hClose handle
          found <- ByteString.readFile path
          removeFile path
          assertBool "the same bytes" (found == toByteString put),
        testCase "lazyStringsWereWrittenWhole: chunks are written when they are needed" $ do
          written <- newRef (0 :: Int)
          let put = foldMap (const (write (writeAtMost 8 (\p -> modifyRef written (\n -> (n + 1, ())) >> pokeWrite "12345678" p)))) [1 .. 1000000 :: Int]
              chunks = Lazy.toChunks (toLazyByteString put)
              afterChunk n = evaluate (ByteString.length (chunks !! n)) >> readRef written
          -- The first chunk twice, and the rest.
          one <- afterChunk 0
          assertBool (show one) (one <= 2 * (4096 + 1))
          -- The batches have 1, 2, 4, 8 chunks.
          seven <- afterChunk 6
          assertBool (show seven) (seven <= one + 6 * 4096 + 8)
          sum (map ByteString.length chunks) @?= 8000000,
        testCase "lazy strings: an exception comes behind the chunks before it" $ do
          let put = slice (Char8.replicate 100000 'x') <> slice (Char8.replicate 5 'y') <> write (decimal (throw Unlucky :: Int))
              lazy = toLazyByteString put
          Lazy.toStrict (Lazy.take 100000 lazy) @?= Char8.replicate 100000 'x'
          replicateM_ 2 $ do
            r <- try (evaluate (Lazy.length lazy))
            either (\Unlucky -> pure ()) (\_ -> fail "did not throw") r,
        testCase "lazy strings: one whose evaluation was interrupted goes on" $
          forM_ [0, 40000, 400000] $ \before -> do
            reached <- newEmptyMVar
            gate <- newEmptyMVar
            let waiting p = tryPutMVar reached () >> readMVar gate >> pokeWrite "!" p
                lazy = toLazyByteString (slice (Char8.replicate before 'x') <> write (writeAtMost 1 waiting) <> slice (Char8.replicate before 'y'))
            -- GHC would evaluate it before the thread is started, because it is needed in the end.
            place <- newRef [lazy]
            thread <- forkIO (void (try (readRef place >>= evaluate . sum . map Lazy.length) :: IO (Either SomeException Int64)))
            takeMVar reached
            killThread thread
            putMVar gate ()
            kept <- readRef place
            map Lazy.toStrict kept @?= pure (Char8.replicate before 'x' <> "!" <> Char8.replicate before 'y'),
        testCase "lazy strings: the writer of one that nobody needs is stopped" $ do
          stopped <- newEmptyMVar
          gate <- newEmptyMVar
          reached <- newEmptyMVar
          let blocked p = do
                putMVar reached ()
                () <- readMVar gate `onException` putMVar stopped ()
                pure p
          thread <- forkIO . void . evaluate . Lazy.length . toLazyByteString $ slice (Char8.replicate 100000 'x') <> write (writeAtMost 1 blocked)
          takeMVar reached
          killThread thread
          let collected = performMajorGC >> yield >> tryTakeMVar stopped >>= maybe collected pure
          timeout 60000000 collected >>= (@?= Just ())
          -- Keeps the gate reachable, so that the collector did not stop the writer as deadlocked.
          putMVar gate (),
        testCase "a builder that runs twice writes twice" $ do
          runs <- newRef (0 :: Int)
          let builder = toBuilder (write (writeAtMost 1 (\p -> modifyRef runs (\n -> (n + 1, ())) >> pokeWrite "x" p)))
          Builder.toLazyByteString (builder <> builder) @?= "xx"
          Builder.toLazyByteString builder @?= "x"
          readRef runs >>= (@?= 3),
        testCase "large slices are passed as they are" $ do
          sizes <- newRef []
          drainTo (\_ n -> modifyRef sizes (\ns -> (n : ns, ()))) (write (char7 'a') <> slice (Char8.replicate 100000 'x') <> write (char7 'b'))
          readRef sizes >>= (@?= [1, 100000, 1]),
        whenOptimised . testCase "nothing is allocated for pieces" $ do
          found <- allocatedBy $ \n -> drainTo (\_ _ -> pure ()) (counting n 0)
          found @?= 0,
        testCase "addresses and dates" $ do
          toByteString (write (ipv4 0x0700000a)) @?= "10.0.0.7"
          toByteString (write (ipv6 0x20010db800000000 7)) @?= "2001:db8::7"
          toByteString (write (ipv6 maxBound maxBound)) @?= "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
          toByteString (write (httpDate (EpochSeconds 784111777))) @?= "Sun, 06 Nov 1994 08:49:37 GMT"
          toByteString (write (logTime (EpochSeconds 784111777) 90)) @?= "06/Nov/1994:10:19:37 +0130",
        testProperty "bounds hold" $ \(n :: Word64) (high :: Word64) (x :: Double) (f :: Float) c ->
          forAll (chooseInt (-5, 30)) $ \width ->
            ioProperty . fmap conjoin . mapM bounded $
              [ hex (fromIntegral n),
                hexFixed width n,
                decimalFixed width n,
                ipv4 (fromIntegral n),
                ipv6 high n,
                ipv6 0 n,
                doubleShortest x,
                floatShortest f,
                charUtf8 c,
                decimal (fromIntegral n :: Int),
                decimal (fromIntegral n :: Int8),
                decimal n,
                "a literal",
                "\0\55296\246",
                httpDate (EpochSeconds (fromIntegral n)),
                logTime (EpochSeconds (fromIntegral n)) width
              ],
        testCase "the examples of the documentation" $ do
          toByteString (integer (negate (2 ^ (64 :: Int)))) @?= "-18446744073709551616"
          toByteString (sepBy (write (char7 ' ')) (write . decimal) [1 :: Int, 2, 3]) @?= "1 2 3"
          toByteString (commaSeparated (write . decimal) [1 :: Int, 2, 3]) @?= "1,2,3"
          toByteString (commaSeparated (write . decimal) ([] :: [Int])) @?= ""
          writeBound (char7 'a' <> char7 'b') @?= 2
      ]

-- | It stays within its bound, also when it reads what it has written.
bounded :: Write -> IO Property
bounded w = do
  b <- writtenWithin (writeBound w) (pokeWrite w)
  -- The page after the bound cannot be touched.
  (low, high) <- guarded (ByteString.replicate (writeBound w) 0) $ \room ->
    unsafeUseAsCStringLen room $ \(p, _) -> do
      end <- pokeWrite w (castPtr p)
      ByteString.packCStringLen (p, end `minusPtr` p)
  pure (ByteString.length b <= writeBound w .&&. low === b .&&. high === b)

counting :: Int -> Int -> Put
counting n i
  | i == n = mempty
  | otherwise = write (decimal i <> char7 ',') <> slice "abc" <> counting n (i + 1)

data Unlucky = Unlucky
  deriving stock (Show)

instance Exception Unlucky

-- | This many blocks of memory are left after a collection.
settled :: Int -> IO ()
settled expected = go (20 :: Int)
  where
    go tries = do
      performMajorGC
      counted <- fromIntegral <$> memoriesCounted
      if counted == expected || tries == 0 then assertEqual "memories" expected counted else go (tries - 1)

drainedBy :: Put -> IO ByteString
drainedBy put = do
  parts <- newRef []
  drainTo (\p n -> ByteString.packCStringLen (castPtr p, n) >>= \b -> modifyRef parts (\bs -> (b : bs, ()))) put
  mconcat . reverse <$> readRef parts

-- | Into a buffer of this size, after which nothing may change.
intoSize :: Int -> Put -> IO (Maybe ByteString)
intoSize size put = do
  buffer <- newBuffer size
  found <- tryPutInto buffer put
  case found of
    Nothing -> pure Nothing
    Just n -> Just <$> withBuffer buffer (\p -> ByteString.packCStringLen (castPtr p, n))
