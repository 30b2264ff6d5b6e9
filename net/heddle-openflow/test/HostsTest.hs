-- |
-- Module      : HostsTest
-- Description : The table of hosts
module HostsTest
  ( hostsTests,
  )
where

import Control.Monad (forM, forM_, when)
import Data.Set qualified as Set
import Heddle.OpenFlow
import Heddle.OpenFlow.Hosts
import Test.QuickCheck
import Test.Tasty
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck (testProperty)

hostsTests :: TestTree
hostsTests =
  testGroup
    "hosts"
    [ testProperty "learned hosts are found where they were seen last" hostsModel,
      testCase "a full table learns no more, and knows what it knew" hostsFull,
      testCase "hosts that are not seen are forgotten" hostsAge,
      testCase "slots of forgotten hosts are used again" slotsAgain
    ]

slotsAgain :: IO ()
slotsAgain = do
  hosts <- newHosts 16 1000
  forM_ [1 .. 3000] $ \i -> do
    (@?= Added) =<< learnHost hosts (hostKey 0 (Mac i)) (placeOf 0 (PortNo 1))
    when (i `rem` 500 == 0) (forgetOlder hosts 1 >> forgetOlder hosts 1)
  hostsList hosts >>= (@?= 0) . length

hostsModel :: [(Word', Word', Word')] -> Property
hostsModel steps = ioProperty $ do
  hosts <- newHosts 4 64
  forM_ steps $ \(Word' h, Word' s, Word' p) -> learnHost hosts (keyOf h) (placeOf s (PortNo (fromIntegral p)))
  found <- forM steps $ \(Word' h, _, _) -> (\w -> (placeSwitch w, placePort w)) <$> findHost hosts (keyOf h)
  let wanted = [head [(s', PortNo (fromIntegral p')) | (Word' h', Word' s', Word' p') <- reverse steps, h' == h] | (Word' h, _, _) <- steps]
  n <- hostsCount hosts
  pure (conjoin [found === wanted, n === Set.size (Set.fromList [h | (Word' h, _, _) <- steps])])
  where
    keyOf h = hostKey (fromIntegral h) (Mac (fromIntegral h * 7))

newtype Word' = Word' Int
  deriving stock (Show)

instance Arbitrary Word' where
  arbitrary = Word' <$> choose (0, 40)

hostsFull :: IO ()
hostsFull = do
  hosts <- newHosts 4 4
  learned <- forM [1 .. 6] $ \i -> learnHost hosts (hostKey 0 (Mac i)) (placeOf 0 (PortNo 1))
  learned @?= [Added, Added, Added, Added, HostsFull, HostsFull]
  (@?= Moved) =<< learnHost hosts (hostKey 0 (Mac 1)) (placeOf 0 (PortNo 2))
  (@?= Known) =<< learnHost hosts (hostKey 0 (Mac 1)) (placeOf 0 (PortNo 2))
  (@?= noPlace) =<< findHost hosts (hostKey 0 (Mac 5))
  forgetPlace hosts (placeOf 0 (PortNo 2))
  (@?= noPlace) =<< findHost hosts (hostKey 0 (Mac 1))
  (@?= Added) =<< learnHost hosts (hostKey 0 (Mac 1)) (placeOf 0 (PortNo 3))

hostsAge :: IO ()
hostsAge = do
  hosts <- newHosts 16 16
  forM_ [1, 2] $ \i -> learnHost hosts (hostKey 5 (Mac i)) (placeOf 3 (PortNo 1))
  forgetOlder hosts 1
  (@?= Known) =<< learnHost hosts (hostKey 5 (Mac 1)) (placeOf 3 (PortNo 1))
  forgetOlder hosts 1
  forgetOlder hosts 2
  list <- hostsList hosts
  [m | (_, m, _) <- list] @?= [Mac 1]
