{-# LANGUAGE OverloadedStrings #-}

module CacheTest (tests) where

import Control.Monad (foldM, forM, forM_, unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int64)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Maybe (catMaybes, isNothing)
import Foreign.Ptr (castPtr)
import Heddle.Http
import Heddle.Http.Conditional (Validators (..))
import Heddle.Prim.Clock (Deadline (..))
import Heddle.Serve.Internal
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "FileCache"
    [ testProperty "fewPathsAreAMap: up to four paths behave as a map" $
        forAll (listOf (operation (take 4 paths))) $ \ops -> ioProperty (conjoin <$> run (==) ops),
      testProperty "manyPathsAreASubmap: a path is answered by its latest entry or not at all" $
        forAll (resize 2000 (listOf (operation paths))) $ \ops ->
          ioProperty (conjoin <$> run (\found wanted -> isNothing found || found == wanted) ops),
      testCase "it holds at most 4,096 entries" $ do
        cache <- newFileCache
        let names = [C.pack ('/' : show i) | i <- [1 :: Int .. 20000]]
        forM_ names $ \name -> entryOf name 1 0 >>= insertEntry cache
        found <- catMaybes <$> mapM (find cache) names
        assertBool ("expected at most 4096 and more than 3000, but got " ++ show (length found)) (length found <= 4096 && length found > 3000),
      testCase "it holds at most its budget of bytes" $ do
        cache <- newFileCache
        let names = [C.pack ('/' : show i) | i <- [1 :: Int .. 2000]]
        forM_ names $ \name -> entryOf name 1 60000 >>= insertEntry cache
        found <- catMaybes <$> mapM (find cache) names
        let held = length found * 60000
        assertBool ("expected at most " ++ show cacheBudget ++ " and more than half, but got " ++ show held) (held <= cacheBudget && held > cacheBudget `div` 2),
      testCase "what leaves makes room again" $ do
        cache <- newFileCache
        let names = [C.pack ('/' : show i) | i <- [1 :: Int .. 2000]]
        forM_ [1 :: Int .. 3] $ \_ -> do
          forM_ names $ \name -> entryOf name 1 60000 >>= insertEntry cache
          forM_ names (\name -> entryOf name 0 0 >>= removeEntry cache)
        forM_ names $ \name -> find cache name >>= (@?= Nothing)
        forM_ (take 100 names) $ \name -> do
          entryOf name 7 60000 >>= insertEntry cache
          find cache name >>= (@?= Just 7),
      testCase "the entry that is used outlives the others of a full set" $ do
        cache <- newFileCache
        let names = [C.pack ('/' : show i) | i <- [1 :: Int .. 20000]]
        entryOf "/kept" 9 0 >>= insertEntry cache
        forM_ names $ \name -> do
          find cache "/kept" >>= (@?= Just 9)
          entryOf name 1 0 >>= insertEntry cache
        find cache "/kept" >>= (@?= Just 9),
      testCase "fullCacheTookNothingNew: after a crawl over its budget, what is used stays and what comes gets in" $ do
        cache <- newFileCache
        let hot = [C.pack ("/hot/" ++ show i) | i <- [1 :: Int .. 50]]
            crawl = [C.pack ("/cold/" ++ show i) | i <- [1 :: Int .. 3000]]
            use names = length . catMaybes <$> mapM (find cache) names
        forM_ crawl $ \name -> entryOf name 1 60000 >>= insertEntry cache
        -- Files that become hot after the crawl.
        forM_ hot $ \name -> entryOf name 2 60000 >>= insertEntry cache
        use hot >>= (@?= 50)
        -- They survive another crawl, because each is requested now and then.
        forM_ (zip [1 :: Int ..] crawl) $ \(i, name) -> do
          entryOf name 3 60000 >>= insertEntry cache
          when (i `mod` 100 == 0) $ use hot >>= (@?= 50)
        held <- use (hot ++ crawl)
        assertBool ("expected at most " ++ show cacheBudget ++ " bytes, but got " ++ show (held * 60000)) (held * 60000 <= cacheBudget)
        -- Files that are not requested any more are evicted.
        forM_ [1 :: Int .. 4] $ \_ -> forM_ crawl $ \name -> entryOf name 4 60000 >>= insertEntry cache
        use hot >>= (@?= 0)
    ]

data Operation = Insert ByteString Int64 | Remove ByteString | Lookup ByteString
  deriving stock (Show)

operation :: [ByteString] -> Gen Operation
operation names =
  frequency
    [ (4, Insert <$> elements names <*> choose (1, 1000)),
      (1, Remove <$> elements names),
      (5, Lookup <$> elements names)
    ]

-- Lengths around the eight bytes that are compared at once, and paths that share a prefix.
paths :: [ByteString]
paths = ["/" <> C.replicate n 'a' <> C.pack (show i) | i <- [1 :: Int .. 300], n <- [0, 5, 6, 7, 8, 14, 15, 16, 40]]

run :: (Maybe Int64 -> Maybe Int64 -> Bool) -> [Operation] -> IO [Property]
run agrees ops = do
  cache <- newFileCache
  (results, final) <- foldM (step cache) ([], Map.empty) ops
  after <- forM (Map.keys final) $ \name -> check name final <$> find cache name
  pure (results ++ after)
  where
    step :: FileCache -> ([Property], Map ByteString Int64) -> Operation -> IO ([Property], Map ByteString Int64)
    step cache (results, model) = \case
      Insert name n -> do
        entryOf name n 0 >>= insertEntry cache
        pure (results, Map.insert name n model)
      Remove name -> do
        entryOf name 0 0 >>= removeEntry cache
        pure (results, Map.delete name model)
      Lookup name -> do
        found <- find cache name
        pure (check name model found : results, model)
    check name model found =
      let wanted = Map.lookup name model
       in counterexample ("expected " ++ show wanted ++ " for " ++ show name ++ "\n but got: " ++ show found) (agrees found wanted)

-- The size in an entry's stamp distinguishes entries.
find :: FileCache -> ByteString -> IO (Maybe Int64)
find cache name = do
  found <- unsafeUseAsCStringLen name (\(p, n) -> lookupPath cache plainVariant (castPtr p) n)
  forM_ found $ \e -> unless (entryPath e == name) (fail ("expected the entry of " ++ show name ++ ", but got that of " ++ show (entryPath e)))
  pure (stampSize . entryStamp <$> found)

entryOf :: ByteString -> Int64 -> Int -> IO Entry
entryOf name n size = do
  reply <- newPrebuilt "" status200 [] (ContentOf size (\_ -> pure ()))
  unchanged <- newPrebuilt "" status304 [] NoContent
  newEntry (Deadline 0) (Entry name plainVariant False (B.drop 1 name) True (Stamp n 0 0 0 0 0 0) (Representation (Validators Nothing Nothing) "text/plain" n Identity []) reply unchanged)
